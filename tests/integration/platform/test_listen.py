"""LISTEN goes on through pulses and lost connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
from hango_platform.postgres.listen import SQL, listen

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from datetime import datetime

CHANNEL = "news"
PULSE = 0.02


async def test_it_hears_after_many_pulses_and_after_its_connection_was_killed(
    empty_database: str,
) -> None:
    heard: list[str] = []
    task = asyncio.create_task(listen(empty_database, CHANNEL, heard.append, pulse=PULSE))
    other = await asyncpg.connect(empty_database)
    try:

        async def connected() -> bool:
            return heard.count("") == 1

        await eventually(connected)
        pulses: set[datetime] = set()
        while len(pulses) < 3:
            pulses.add(await other.fetchval(LAST_PULSE, SQL.pulse.sql))
        await other.execute("SELECT pg_notify($1, $2)", CHANNEL, "one")

        async def heard_it() -> bool:
            return heard == ["", "one"]

        await eventually(heard_it)

        await other.execute(KILL)

        async def connected_again() -> bool:
            return heard.count("") == 2

        await eventually(connected_again)
        await other.execute("SELECT pg_notify($1, $2)", CHANNEL, "two")

        async def heard_more() -> bool:
            return heard[-1] == "two"

        await eventually(heard_more)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await other.close()


OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
LAST_PULSE = f"SELECT query_start {OTHERS} AND query = $1"
KILL = f"SELECT pg_terminate_backend(pid) {OTHERS}"
