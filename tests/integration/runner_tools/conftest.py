"""Tool servers that run for a test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hango_runner.tools.server_file import ServerConfig

from tests.support.tool_servers import Running, running


@pytest.fixture
async def start() -> AsyncIterator[Callable[[ServerConfig], Awaitable[Running]]]:
    """Starts a server and does not wait for it; all end with the test."""
    async with AsyncExitStack() as stack:

        async def begin(config: ServerConfig) -> Running:
            return await stack.enter_async_context(running(config))

        yield begin
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 5


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where the bank writes what it did."""
    return tmp_path / "ledger.jsonl"
