"""Tool servers that run for a test."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult
from hango_runner.tools.grpc_server import GrpcServer
from hango_runner.tools.mcp_server import McpServer
from hango_runner.tools.server import ToolServer
from hango_runner.tools.server_file import ServerConfig, Transport

from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
BANK = ROOT / "examples" / "bank"
ODD = ROOT / "tests" / "integration" / "runner_tools"


class Running:
    """A server and the ways a test touches it."""

    def __init__(self, server: ToolServer[Any]) -> None:
        self.server = server

    async def call(self, tool: str, *, key: str = "key-1", **arguments: Any) -> ToolResult:
        result = await self.call_raw(tool, json.dumps(arguments).encode(), key=key)
        assert isinstance(result, ToolResult)
        return result

    async def call_raw(
        self, tool: str, arguments: bytes, *, key: str = "key-1", inputs: tuple[bytes, ...] = ()
    ) -> ToolResult | NeedsInput:
        context = ToolCallContext("t", "demo", "a", "run-1", 1, "call-1", key, "1", inputs)
        async with asyncio.timeout(20):
            return await self.server.call(tool, arguments, context)

    async def connected(self) -> None:
        async def listed() -> bool:
            return bool(self.server.tools) and self.server.connected

        await eventually(listed, what=f"connected; trouble: {self.server.trouble}")

    def process(self) -> psutil.Process:
        """The server's process."""
        folder = str(self.server.config.folder)
        (found,) = (
            child
            for child in psutil.Process().children()
            if self.server.config.command[-1] in child.cmdline() and child.cwd() == folder
        )
        return found


@asynccontextmanager
async def running(config: ServerConfig) -> AsyncIterator[Running]:
    server: ToolServer[Any] = (
        GrpcServer(config) if config.transport is Transport.GRPC else McpServer(config)
    )
    task = asyncio.create_task(server.run())
    try:
        yield Running(server)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def bank_config(ledger: Path, **env: str) -> ServerConfig:
    return ServerConfig(
        "bank",
        Transport.MCP_STDIO,
        BANK,
        ("python", "bank.py"),
        env={"BANK_LEDGER": str(ledger), **env},
    )


def odd_config(*tools: Any, start: str = "") -> ServerConfig:
    return ServerConfig(
        "odd",
        Transport.MCP_STDIO,
        ODD,
        (sys.executable, "odd_server.py"),
        env={"ODD_TOOLS": json.dumps(tools), "ODD_START": start},
    )


def entries(ledger: Path) -> list[dict[str, Any]]:
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines()]
