"""A tool server that speaks MCP over its standard input and output, kept running."""

from __future__ import annotations

import asyncio
import contextlib
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
from hango_runner.tools.listing import MAX_TOOLS, listed_tools
from hango_runner.tools.mcp_messages import call_params, read_result
from hango_runner.tools.stdio import open_link
from hango_runner.tools.text import presentable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.session import IncomingMessage

    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult
    from hango_runner.tools.server import ListedTool
    from hango_runner.tools.server_file import ServerConfig
    from hango_runner.tools.stdio import Link

log = logging.getLogger(__name__)

START_TIMEOUT = 10.0
"""Seconds that a server has to start, shake hands and list its tools."""
RECONNECT_WAIT = 5.0
"""Seconds that a call waits for a server that is not connected."""
FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 30.0
"""Seconds between two starts, doubling from the first to the longest."""
STEADY_AFTER = 10.0
"""Seconds of being connected after which the backoff starts over."""

_CLIENT = Implementation(name="hango", version="1")
_MAX_PAGES = 32
_REFUSALS = (METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)


class McpServer:
    """One server: a process, a session with it, and the tools it lists.

    `run` owns the process and the session; calls come from any task of the same loop, several at
    a time. What was listed last stays listed while the server is away.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.tools: Mapping[str, ListedTool] = {}
        self.trouble = "the server was not reached yet"
        self.tried = asyncio.Event()
        self._link: Link | None = None
        self._dispatcher: JSONRPCDispatcher | None = None
        self._connected = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether a call would be sent at once."""
        return self._usable() is not None

    async def run(self) -> None:
        """Keep it running until cancelled; nothing it does raises here."""
        loop = asyncio.get_running_loop()
        backoff = FIRST_BACKOFF
        while True:
            since = loop.time()
            await self._live_once()
            if loop.time() - since >= STEADY_AFTER:
                backoff = FIRST_BACKOFF
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    async def call(
        self, name: str, arguments: bytes, context: ToolCallContext
    ) -> ToolResult | NeedsInput:
        """Call the tool that the server calls `name`.

        Raises ToolNotCalled where nothing was sent or the server refused the request as such,
        ToolOutcomeUnknown where it was sent and no good answer came. Has no time limit of its own
        once it was sent: a cancelled call tells the server, and its outcome is unknown.
        """
        params = call_params(name, arguments, context)
        dispatcher = await self._dispatcher_soon()
        try:
            raw = await dispatcher.send_raw_request("tools/call", params)
        except MCPError as error:
            if error.code in _REFUSALS:
                message = f"The server refused the call: {presentable(error.message, 1000)}"
                raise ToolNotCalled(message) from None
            message = f"the call ended by error {error.code}"
            raise ToolOutcomeUnknown(message) from None
        return read_result(raw)

    async def _dispatcher_soon(self) -> JSONRPCDispatcher:
        if (dispatcher := self._usable()) is not None:
            return dispatcher
        self._connected.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_WAIT):
                await self._connected.wait()
        if (dispatcher := self._usable()) is not None:
            return dispatcher
        message = "The tool was not called: its server cannot be reached now."
        raise ToolNotCalled(message)

    def _usable(self) -> JSONRPCDispatcher | None:
        gone = self._link is None or self._link.closed.is_set()
        return None if gone else self._dispatcher

    async def _live_once(self) -> None:
        """Start it, and stay until it is gone."""
        complaint = ""
        try:
            async with open_link(self.config) as link:
                reason = await self._converse(link)
                complaint = link.complaint.decode(errors="replace")
        except OSError as error:
            reason, complaint = "the command cannot be started", str(error)
        except Exception as error:
            # A broken server must not end the service; the text of an error may hold arguments.
            reason = f"the conversation broke off ({type(error).__name__})"
        self._link = self._dispatcher = None
        self.tried.set()
        if not self.tools:
            self.trouble = reason
        log.warning(
            "tool server is away",
            extra={"server": self.config.name, "reason": reason, "stderr": complaint},
        )

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
            self.trouble = ""
            self._link, self._dispatcher = link, dispatcher
            self._connected.set()
            self.tried.set()
            log.info(
                "tool server connected",
                extra={"server": self.config.name, "tools": len(self.tools)},
            )
            while await _first_is_set(changed, link.closed):
                changed.clear()
                if trouble := await self._get_acquainted(None, dispatcher):
                    log.warning(
                        "tools not listed again",
                        extra={"server": self.config.name, "reason": trouble},
                    )
            self._link = self._dispatcher = None
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
