"""The outbox: rivals share it, a death repeats and never loses, poison is put aside."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from hango_platform import ids
from hango_platform.outbox import outbox
from hango_platform.outbox.outbox import OutboxRow
from hango_platform.outbox.relay import Refused, Relay, Unreachable
from hango_platform.postgres.pool import Database
from hango_platform.telemetry.metrics import Metrics

from tests.support.stack import migrate_runner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import PostgresServer

KIND = "nats"
TENANT = ids.new_id()
NOW = timedelta(0)


@pytest.fixture
async def dsn(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """A database with an outbox."""
    made = await postgres_server.database_from_template("runner", migrate_runner)
    yield made
    await postgres_server.drop_database(made)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """Connected to it."""
    opened = Database(dsn)
    await opened.open()
    yield opened
    await opened.close()


async def write(database: Database, count: int) -> list[str]:
    """Store rows that any relay may take at once; their ids."""
    rows = [OutboxRow(TENANT, KIND, "subject", b"{}") for _ in range(count)]
    async with database.system() as tx:
        await outbox.write(tx, rows, relay=None, lease=NOW)
    return [row.id for row in rows]


class Taker:
    """Takes rows, and counts how often it took each."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.poison: set[str] = set()
        self.away = False

    async def __call__(self, row: OutboxRow) -> None:
        if self.away:
            raise Unreachable
        if row.id in self.poison:
            raise Refused(row, "cannot be read")
        self.taken[row.id] += 1
        await asyncio.sleep(0)


@asynccontextmanager
async def running(*relays: Relay) -> AsyncIterator[None]:
    """Relays at work."""
    tasks = [asyncio.create_task(relay.run()) for relay in relays]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def count(dsn: str, what: str) -> int:
    """How many rows are so."""
    connection = await asyncpg.connect(dsn)
    try:
        found: int = await connection.fetchval(f"SELECT count(*) FROM outbox WHERE {what}")
    finally:
        await connection.close()
    return found


async def all_sent(dsn: str, but: int = 0) -> None:
    """Wait until that many rows are left."""

    async def sent() -> bool:
        return await count(dsn, "published_at IS NULL") == but

    await eventually(sent, what=f"all rows but {but} are sent")


async def test_two_relays_share_the_rows(dsn: str, database: Database) -> None:
    rows = await write(database, 1000)
    taker = Taker()
    async with running(Relay(database, {KIND: taker}), Relay(database, {KIND: taker})):
        await all_sent(dsn)
    assert taker.taken == Counter(rows)


async def test_a_relay_that_dies_between_publish_and_mark(dsn: str, database: Database) -> None:
    """Its rows are sent again, under the same ids, once its lease is over."""
    rows = await write(database, 5)
    taker = Taker()
    async with running(Relay(database, {KIND: taker})):

        async def taken() -> bool:
            return len(taker.taken) == 5

        await eventually(taken, what="all are taken")
        # The mark comes a moment later than the last one: not any more.
    left = await count(dsn, "published_at IS NULL")
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE outbox SET leased_until = clock_timestamp()")
    await connection.close()
    async with running(Relay(database, {KIND: taker})):
        await all_sent(dsn)
    assert set(taker.taken) == set(rows)
    assert sum(taker.taken.values()) == 5 + left


async def test_what_is_offered_does_not_wait_for_earlier_acknowledgements(
    dsn: str, database: Database
) -> None:
    """A broker that takes its time over one message gets the next one at once."""
    slow, quick = (OutboxRow(TENANT, KIND, key, b"{}") for key in ("slow", "quick"))
    acknowledged, came = asyncio.Event(), asyncio.Event()

    async def send(row: OutboxRow) -> None:
        if row is slow:
            await acknowledged.wait()
        else:
            came.set()

    relay = Relay(database, {KIND: send})
    async with running(relay):
        for row in (slow, quick):
            async with database.system() as tx:
                await outbox.write(tx, [row], relay=relay, lease=timedelta(seconds=10))
        async with asyncio.timeout(2):
            await came.wait()
        acknowledged.set()
        await all_sent(dsn)


async def test_nobody_there_costs_no_attempt(dsn: str, database: Database) -> None:
    rows = await write(database, 5)
    taker = Taker()
    taker.away = True
    async with running(Relay(database, {KIND: taker})):

        async def tried() -> bool:
            return await count(dsn, "leased_until > clock_timestamp()") == 5

        await eventually(tried, what="all were tried")
        taker.away = False
        await all_sent(dsn)
    assert await count(dsn, "attempts > 0") == 0
    assert taker.taken == Counter(rows)


async def test_a_row_that_is_refused_for_ever_becomes_a_dead_letter(
    dsn: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 39: after 20 refusals it is put aside, with an error in the log and a number that
    alerts; the rows behind it never waited.
    """
    (poison,) = await write(database, 1)
    taker = Taker()
    taker.poison.add(poison)
    connection = await asyncpg.connect(dsn)
    async with running(Relay(database, {KIND: taker})):
        with caplog.at_level(logging.ERROR):
            for attempt in range(20):
                (good,) = await write(database, 1)

                async def both(good: str = good, attempt: int = attempt) -> bool:
                    tried = await count(dsn, f"attempts = {attempt + 1}")
                    return tried == 1 and taker.taken[good] == 1

                await eventually(both, what=f"refusal {attempt + 1}, and the row behind it")
                await connection.execute(
                    "UPDATE outbox SET leased_until = clock_timestamp() WHERE attempts > 0"
                )
        await all_sent(dsn, but=1)
    await connection.close()
    assert await count(dsn, "dead_at IS NOT NULL") == 1
    assert sum(r.message == "outbox row refused" for r in caplog.records) == 20
    metrics = Metrics()
    await outbox.measure(database, metrics)
    assert metrics.outbox_dead._value.get() == 1
    assert metrics.outbox_backlog._value.get() == 0
