"""Two migrated databases with a World on them, on an event loop of its own: Hypothesis is not
asynchronous.
"""

import asyncio
from collections.abc import Iterator

import pytest
from hango_platform.postgres.migrate import Migrator

from tests.integration.model.world import World
from tests.support.backend import PostgresServer


async def _migrate_approvals(dsn: str) -> None:
    await Migrator(dsn, "hango_approvals.postgres").up()


async def _migrate_runner(dsn: str) -> None:
    await Migrator(dsn, "hango_runner.postgres").up()


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The loop that a World lives on."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="session")
def world(postgres_server: PostgresServer, runner: asyncio.Runner) -> Iterator[World]:
    """One for all tests of this folder; each begins with `clear()`."""

    async def make() -> World:
        a = await postgres_server.database_from_template("approvals", _migrate_approvals)
        r = await postgres_server.database_from_template("runner", _migrate_runner)
        made = World(a, r)
        await made.open()
        return made

    made = runner.run(make())
    yield made
    runner.run(made.close())
