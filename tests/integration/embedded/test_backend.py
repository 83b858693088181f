"""What the other tests stand on: databases of their own, and a bus."""

import asyncio

import asyncpg
import nats

from tests.support.backend import NatsServer, PostgresServer


async def fetch(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_template_is_prepared_once_and_its_copies_are_apart(
    postgres_server: PostgresServer,
) -> None:
    prepared: list[str] = []

    async def prepare(dsn: str) -> None:
        prepared.append(dsn)
        await fetch(dsn, "CREATE TABLE things AS SELECT 1 AS n")

    first, second = [
        await postgres_server.database_from_template("things", prepare) for _ in range(2)
    ]
    assert len(prepared) == 1
    assert len({first, second, *prepared}) == 3
    await fetch(first, "INSERT INTO things VALUES (2)")
    assert [await fetch(dsn, "SELECT count(*) FROM things") for dsn in (first, second)] == [2, 1]
    for dsn in (first, second):
        await postgres_server.drop_database(dsn)


async def test_a_database_can_be_dropped_while_sessions_are_open(
    postgres_server: PostgresServer,
) -> None:
    dsn = await postgres_server.create_database()
    ended = asyncio.Event()
    left_open = await asyncpg.connect(dsn)
    left_open.add_termination_listener(lambda _: ended.set())
    await postgres_server.drop_database(dsn)
    await asyncio.wait_for(ended.wait(), timeout=5)


async def test_an_empty_database_is_empty(empty_database: str) -> None:
    assert await fetch(empty_database, "SELECT count(*) FROM pg_stat_user_tables") == 0


async def test_the_bus_answers(nats_server: NatsServer) -> None:
    client = await nats.connect(nats_server.url, allow_reconnect=False)
    try:
        assert (await client.jetstream().account_info()).streams >= 0
    finally:
        await client.close()
