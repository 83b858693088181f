"""All tools that there are now: the built-ins, and those of the operator's tool servers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from hango_policy.schemas import compile_schema

from hango_runner.agent.tools import Effect, ToolSpec
from hango_runner.tools.files import FILE_TOOLS
from hango_runner.tools.grpc_server import GrpcServer
from hango_runner.tools.mcp_server import McpServer, quiet_library
from hango_runner.tools.questions import ASK_HUMAN
from hango_runner.tools.server_file import Transport
from hango_runner.tools.task import TASK
from hango_runner.tools.todos import WRITE_TODOS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hango_platform.lifecycle import Tasks
    from hango_policy.schemas import CompiledSchema

    from hango_runner.agent.tools import RemoteTool, TransactionalTool
    from hango_runner.tools.server import ListedTool, ToolServer
    from hango_runner.tools.server_file import ServerConfig

SEPARATOR = "__"
"""Between a server's name, which has none, and its tool's."""


SETTLE_WITHIN = 5.0
"""Seconds after the start that `settled` waits at most for servers to come up."""


class Catalog:
    """What agents may use. Answers from memory, at any time, for every tenant."""

    def __init__(self, configs: Iterable[ServerConfig] = ()) -> None:
        self._servers = {config.name: _server(config) for config in configs}
        self._work = {tool.spec.name: tool for tool in (*FILE_TOOLS, WRITE_TODOS)}
        builtins = [*(tool.spec for tool in self._work.values()), ASK_HUMAN, TASK]
        self._builtins = {spec.name: spec for spec in builtins}
        self._schemas = {spec.name: compile_schema(spec.parameters) for spec in builtins}
        self._running: list[asyncio.Task[None]] = []
        self._settle_by = 0.0

    def start(self, tasks: Tasks) -> None:
        """Begin to start the servers; their tools appear as they come. Waits for none."""
        quiet_library()
        self._settle_by = asyncio.get_running_loop().time() + SETTLE_WITHIN
        self._running = [
            tasks.spawn(server.run(), f"tool server {name}")
            for name, server in self._servers.items()
        ]

    async def settled(self) -> None:
        """Wait until every server was reached or failed once, at most until SETTLE_WITHIN.

        To be awaited before a run goes on: an approved call that is re-driven right after a
        restart must not find its tool missing because its server is still starting.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._settle_by):
                for server in self._servers.values():
                    await server.tried.wait()

    async def stop(self) -> None:
        """End all servers; within about 2 seconds."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=2)

    def specs(self, tenant: str) -> dict[str, ToolSpec]:
        """What the tenant of this slug may use, by name; unavailable ones included."""
        found = dict(self._builtins)
        for server in self._servers.values():
            if not server.config.serves(tenant):
                continue
            found |= {name: tool.spec for name, tool in server.tools.items()}
            if not server.tools and server.trouble:
                unseen = _unseen(server)
                found[unseen.name] = unseen
        return found

    def schema(self, name: str) -> CompiledSchema | None:
        """What the arguments are checked by; None for a tool that is not there."""
        if (builtin := self._schemas.get(name)) is not None:
            return builtin
        _, tool = self._find(name)
        return None if tool is None else tool.schema

    def transactional(self, name: str) -> TransactionalTool | None:
        """The built-in of this name whose effect is in the database."""
        return self._work.get(name)

    def remote(self, name: str) -> tuple[RemoteTool, str, float | None] | None:
        """A tool server, what it calls the tool, and its own time limit in seconds, if any."""
        server, tool = self._find(name)
        if server is None or tool is None or tool.schema is None:
            return None
        return server, tool.name, server.config.timeout_of(tool.name)

    def _find(self, name: str) -> tuple[ToolServer[Any] | None, ListedTool | None]:
        server = self._servers.get(name.partition(SEPARATOR)[0])
        return server, None if server is None else server.tools.get(name)


def _server(config: ServerConfig) -> ToolServer[Any]:
    if config.transport is Transport.GRPC:
        return GrpcServer(config)
    return McpServer(config)


def _unseen(server: ToolServer[Any]) -> ToolSpec:
    """Stands for the tools of a server that was never seen."""
    name = server.config.name
    return ToolSpec(f"{name}{SEPARATOR}*", "", {}, Effect.ONCE, name, unavailable=server.trouble)
