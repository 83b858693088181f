"""What the catalog asks of a tool server, whatever it is spoken to by."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hango_runner.agent.tools import RemoteTool, ToolNotCalled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hango_policy.schemas import CompiledSchema

    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult, ToolSpec
    from hango_runner.tools.server_file import ServerConfig


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of a server. `name` is the server's; the spec's is `SERVER__TOOL`.

    Without a `schema` it cannot be called, and `spec.unavailable` says why.
    """

    name: str
    spec: ToolSpec
    schema: CompiledSchema | None


class ToolServer(RemoteTool, Protocol):
    """A tool server, connected or not."""

    config: ServerConfig
    tried: asyncio.Event
    """Set once it was reached, or found wanting, for the first time."""

    @property
    def tools(self) -> Mapping[str, ListedTool]:
        """What it offered when it was last seen, by `SERVER__TOOL`."""

    @property
    def trouble(self) -> str:
        """Why it was never seen; empty once it was."""

    async def run(self) -> None:
        """Stay connected until cancelled. Never raises for a fault of the server."""


class UnsupportedServer:
    """A server whose transport this release does not speak."""

    tools: Mapping[str, ListedTool] = {}

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.trouble = f"transport {config.transport} is not supported yet"
        self.tried = asyncio.Event()
        self.tried.set()

    async def run(self) -> None:
        """There is nothing to keep."""

    async def call(
        self,
        name: str,  # noqa: ARG002 - the port's
        arguments: bytes,  # noqa: ARG002 - the port's
        context: ToolCallContext,  # noqa: ARG002 - the port's
    ) -> ToolResult | NeedsInput:
        """Always raises ToolNotCalled."""
        raise ToolNotCalled(self.trouble)
