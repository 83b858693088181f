"""What becomes of transactions when the server, or a rival, gets in their way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import asyncpg
import pytest
from hango_approvals.postgres.audit import SQL as AUDIT
from hango_platform.errors import Unavailable
from hango_platform.postgres.pool import Database, PoolSize

from tests.support.approvals import migrate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import PostgresServer

SOME = AUDIT.audited_tenants
SLEEP = replace(SOME, sql="SELECT pg_sleep(10)")


@pytest.fixture
async def dsn(postgres_server: PostgresServer) -> AsyncIterator[str]:
    made = await postgres_server.database_from_template("approvals", migrate)
    yield made
    await postgres_server.drop_database(made)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(dsn, max_size=2, acquire_timeout=0.2)
    await opened.open()
    yield opened
    await opened.close()


async def end_sessions(dsn: str) -> int:
    """Do to every session what a server does that shuts down; how many there were."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
    return len(rows)


async def query(database: Database, statement: object = SOME) -> None:
    async with database.system() as tx:
        await tx.many(statement)  # type: ignore[arg-type]  # a Query, or a copy of one


async def test_a_session_that_the_server_ends_is_unavailable_and_replaced(
    database: Database, dsn: str
) -> None:
    running = asyncio.ensure_future(query(database, SLEEP))

    async def ended() -> bool:
        return await end_sessions(dsn) > 0

    await eventually(ended)
    with pytest.raises(Unavailable):
        await running
    await query(database)


async def test_a_session_that_ended_unseen_is_unavailable_and_replaced(
    database: Database, dsn: str
) -> None:
    async def use() -> None:
        async with database.system() as tx:
            await end_sessions(dsn)
            await tx.many(SOME)

    with pytest.raises(Unavailable):
        await use()
    await query(database)


async def test_without_a_free_connection_the_answer_comes_soon(database: Database) -> None:
    holders = [asyncio.ensure_future(query(database, SLEEP)) for _ in range(2)]

    async def full() -> bool:
        return database.size() == PoolSize(2, 0)

    await eventually(full)
    async with asyncio.timeout(1):
        with pytest.raises(Unavailable):
            await query(database)
    for holder in holders:
        holder.cancel()
    await asyncio.gather(*holders, return_exceptions=True)
    assert database.size().free == 2
    await query(database)
