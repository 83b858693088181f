"""A tool server that speaks MCP."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Implementation,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from hango_runner.agent.tools import ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools import http, stdio
from hango_runner.tools.link import UNSENT
from hango_runner.tools.listing import MAX_TOOLS, listed_tools
from hango_runner.tools.mcp_messages import call_params, read_result
from hango_runner.tools.server import START_TIMEOUT, Away, ToolServer
from hango_runner.tools.server_file import Transport
from hango_runner.tools.text import presentable

if TYPE_CHECKING:
    from mcp.client.session import IncomingMessage

    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult
    from hango_runner.tools.link import Link, OpenLink
    from hango_runner.tools.server_file import ServerConfig

log = logging.getLogger(__name__)

_CLIENT = Implementation(name="hango", version="1")
_MAX_PAGES = 32
_OPENERS: dict[Transport, OpenLink] = {
    Transport.MCP_STDIO: stdio.open_link,
    Transport.MCP_HTTP: http.open_link,
}
_REFUSALS = (METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)


class McpServer(ToolServer[JSONRPCDispatcher]):
    """A server of either transport of MCP; for a process, its life too."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._open_link = _OPENERS[config.transport]
        self._link: Link | None = None
        self._dispatcher: JSONRPCDispatcher | None = None

    async def call(
        self, name: str, arguments: bytes, context: ToolCallContext
    ) -> ToolResult | NeedsInput:
        """As the base says."""
        params = call_params(name, arguments, context)
        try:
            raw = await self._send(params)
        except MCPError as error:
            if error.data is UNSENT:
                message = f"The tool was not called: {presentable(error.message, 1000)}"
                raise ToolNotCalled(message) from None
            if error.code in _REFUSALS:
                message = f"The server refused the call: {presentable(error.message, 1000)}"
                raise ToolNotCalled(message) from None
            message = f"the call ended by error {error.code}"
            raise ToolOutcomeUnknown(message) from None
        return read_result(raw)

    async def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        """Once more where the server had forgotten the session: it did not look at the call."""
        dispatcher = await self._connection_soon()
        try:
            return await dispatcher.send_raw_request("tools/call", params)
        except MCPError as error:
            if error.data is not UNSENT:
                raise
        dispatcher = await self._connection_soon()
        return await dispatcher.send_raw_request("tools/call", params)

    def _connection(self) -> JSONRPCDispatcher | None:
        gone = self._link is None or self._link.closed.is_set()
        return None if gone else self._dispatcher

    def _forget(self) -> None:
        self._link = self._dispatcher = None

    async def _connect(self) -> Away:
        try:
            async with self._open_link(self.config) as link:
                reason = await self._converse(link)
                return Away(reason, link.complaint.decode(errors="replace"))
        except OSError as error:
            return Away("the command cannot be started", str(error))

    async def _converse(self, link: Link) -> str:
        """Use the link until it is closed; why it is not used any more.

        No exception of the conversation may leave the session's block, whose task group would
        wrap it.
        """
        dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(link.incoming, link.outgoing)
        changed = asyncio.Event()

        async def heard(message: IncomingMessage) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with ClientSession(
            dispatcher=dispatcher, message_handler=heard, client_info=_CLIENT
        ) as session:
            if trouble := await self._get_acquainted(session, dispatcher):
                return "the server ended while it started" if link.closed.is_set() else trouble
            link.ready, link.complaint = True, b""
            self._link, self._dispatcher = link, dispatcher
            self._connected()
            while await _first_is_set(changed, link.closed):
                changed.clear()
                if trouble := await self._get_acquainted(None, dispatcher):
                    log.warning(
                        "tools not listed again",
                        extra={"server": self.config.name, "reason": trouble},
                    )
            self._forget()
        return "the server ended"

    async def _get_acquainted(
        self, session: ClientSession | None, dispatcher: JSONRPCDispatcher
    ) -> str:
        """Shake hands, if there is a session to begin, and list the tools; what went wrong."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                if session is not None:
                    await session.initialize()
                offered = await _offered(dispatcher)
                # In a thread: hostile schemas are refused in bounded, but not in no time.
                self.tools = await asyncio.to_thread(listed_tools, self.config, offered)
        except TimeoutError:
            return f"the server did not answer within {START_TIMEOUT:.0f} s"
        except (MCPError, ValidationError, RuntimeError) as error:
            return f"the server does not speak MCP as we do ({type(error).__name__})"
        return ""


async def _offered(dispatcher: JSONRPCDispatcher) -> list[Any]:
    """All pages of `tools/list` as they came: the library would refuse all for one bad tool."""
    offered: list[Any] = []
    params: dict[str, Any] = {}
    for _ in range(_MAX_PAGES):
        page = await dispatcher.send_raw_request("tools/list", params)
        tools = page.get("tools")
        offered += tools if isinstance(tools, list) else []
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or len(offered) > MAX_TOOLS:
            break
        params = {"cursor": cursor}
    return offered


async def _first_is_set(first: asyncio.Event, second: asyncio.Event) -> bool:
    """Wait for either event; True where it is not the second."""
    waits = [asyncio.create_task(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return not second.is_set()


def quiet_library() -> None:
    """Keep the MCP library out of our logs: it quotes what servers send, arguments included."""
    for name in ("client", "mcp"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
