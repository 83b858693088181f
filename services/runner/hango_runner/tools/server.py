"""What all tool servers have in common, whatever they speak: they are kept connected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from hango_runner.agent.tools import ToolNotCalled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hango_policy.schemas import CompiledSchema

    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult, ToolSpec
    from hango_runner.tools.server_file import ServerConfig

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

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of a server. `name` is the server's; the spec's is `SERVER__TOOL`.

    Without a `schema` it cannot be called, and `spec.unavailable` says why.
    """

    name: str
    spec: ToolSpec
    schema: CompiledSchema | None


@dataclass(frozen=True, slots=True)
class Away:
    """Why a server is not connected any more; `complaint` is what it said itself."""

    reason: str
    complaint: str = ""


class ToolServer(ABC, Generic[C]):
    """One server and the tools it lists; C is what a call needs while it is connected.

    `run` owns the connection; calls come from any task of the same loop, several at a time. What
    was listed last stays listed while the server is away.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.tools: Mapping[str, ListedTool] = {}
        """What it offered when it was last seen, by `SERVER__TOOL`."""
        self.trouble = "the server was not reached yet"
        """Why it was never seen; empty once it was."""
        self.tried = asyncio.Event()
        """Set once it was reached, or found wanting, for the first time."""
        self._arrived = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether a call would be sent at once."""
        return self._connection() is not None

    async def run(self) -> None:
        """Stay connected until cancelled. Never raises for a fault of the server."""
        loop = asyncio.get_running_loop()
        backoff = FIRST_BACKOFF
        while True:
            since = loop.time()
            await self._live_once()
            if loop.time() - since >= STEADY_AFTER:
                backoff = FIRST_BACKOFF
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    @abstractmethod
    async def call(
        self, name: str, arguments: bytes, context: ToolCallContext
    ) -> ToolResult | NeedsInput:
        """Call the tool that the server calls `name`.

        Raises ToolNotCalled where nothing was sent or the server refused the request as such,
        ToolOutcomeUnknown where it was sent and no good answer came. Has no time limit of its own
        once it was sent: a cancelled call tells the server, and its outcome is unknown.
        """

    @abstractmethod
    async def _connect(self) -> Away:
        """Connect, call `_connected`, and stay until the server is gone. OSError: there is none."""

    @abstractmethod
    def _connection(self) -> C | None:
        """What calls go through now; None while there is no connection."""

    @abstractmethod
    def _forget(self) -> None:
        """The connection is over."""

    def _connected(self) -> None:
        self.trouble = ""
        self._arrived.set()
        self.tried.set()
        log.info(
            "tool server connected", extra={"server": self.config.name, "tools": len(self.tools)}
        )

    async def _connection_soon(self) -> C:
        """Raises ToolNotCalled where the server does not come back within RECONNECT_WAIT."""
        if (connection := self._connection()) is not None:
            return connection
        self._arrived.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_WAIT):
                await self._arrived.wait()
        if (connection := self._connection()) is not None:
            return connection
        message = "The tool was not called: its server cannot be reached now."
        raise ToolNotCalled(message)

    async def _live_once(self) -> None:
        try:
            away = await self._connect()
        except OSError as error:
            away = Away("the server cannot be reached", str(error))
        except Exception as error:
            # A broken server must not end the service; the text of an error may hold arguments.
            away = Away(f"the conversation broke off ({type(error).__name__})")
        self._forget()
        self.tried.set()
        if not self.tools:
            self.trouble = away.reason
        log.warning(
            "tool server is away",
            extra={
                "server": self.config.name,
                "reason": away.reason,
                "stderr": away.complaint,
            },
        )
