"""The whole of hango with the examples' tool servers, as a user of the SDK meets it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from hango import Hango

from tests.support.processes import python
from tests.support.stack import running_stack
from tests.support.tool_servers import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples' servers write what they did: `bank` and `releases`."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
async def stack(
    postgres_server: PostgresServer, nats_server: NatsServer, logs: Path
) -> AsyncIterator[Stack]:
    """A, R and the gateway."""
    releases = EXAMPLES / "release-bot" / "releases.py"
    env = {"RELEASES_LOG": str(logs / "releases"), "RELEASES_ADDR": "127.0.0.1:0"}
    async with AsyncExitStack() as resources:
        _, first = await resources.enter_async_context(python(releases, **env))
        servers = logs / "tools.toml"
        servers.write_text(_servers(logs, first.rpartition(" ")[2]))
        stack = await resources.enter_async_context(
            running_stack(postgres_server, nats_server, tool_servers=servers)
        )
        await stack.start_gateway()
        await _listed(stack)
        yield stack


@pytest.fixture
async def admin(stack: Stack) -> AsyncIterator[Hango]:
    """May decide."""
    async with Hango(stack.http, stack.users["admin"].key) as client:
        yield client


@pytest.fixture
async def member(stack: Stack) -> AsyncIterator[Hango]:
    """Starts the runs."""
    async with Hango(stack.http, stack.users["member"].key) as client:
        yield client


def _servers(logs: Path, address: str) -> str:
    """The examples' own files, with what a test must know put in."""
    bank = (EXAMPLES / "bank" / "tools.toml").read_text()
    releases = (EXAMPLES / "release-bot" / "tools.toml").read_text()
    script = EXAMPLES / "bank" / "bank.py"
    assert '"bank.py"' in bank
    assert '"127.0.0.1:7500"' in releases
    bank = bank.replace('"bank.py"', f'"{script}"') + f'env = {{ BANK_LEDGER = "{logs}/bank" }}\n'
    return bank + releases.replace('"127.0.0.1:7500"', f'"{address}"')


async def _listed(stack: Stack) -> None:
    async with Hango(stack.http, stack.users["admin"].key) as client:

        async def both() -> bool:
            names = {tool.name for tool in await client.tools()}
            return {"bank__pay", "releases__ship"} <= names

        await eventually(both, timeout=20, what="the examples' servers are there")
