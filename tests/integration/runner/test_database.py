"""The runner's migrations: up, down, up again; what a rollback does to a run that waits."""

import json

import asyncpg
from hango_platform import ids
from hango_platform.postgres.migrate import Migrator

from tests.support.schema import dump, schema_file

PACKAGE = "hango_runner.postgres"
INSERT_RUN = """INSERT INTO runs (id, tenant_id, tenant, agent, agent_version, lane, state,
                                  metadata, traceparent, created_by, gen, suspension_id,
                                  next_event_seq)
                VALUES ($1, $2, 'demo', 'a', 1, 'default', $3, '{}', '', $2, 1, $4, 3)"""


async def test_up_and_down_and_up_again(empty_database: str) -> None:
    """The schema is the one on file, and every step back leaves what the step found."""
    migrator = Migrator(empty_database, PACKAGE)
    steps = len(await migrator.up())
    first = await dump(empty_database)
    assert first == schema_file(PACKAGE).read_text()
    for _ in range(steps):
        await migrator.down(1)
    assert len(await migrator.up()) == steps
    assert await dump(empty_database) == first


async def test_a_rollback_ends_what_waits(empty_database: str) -> None:
    """Protocol, section 11: an awaiting run fails with `rolled_back`, and its story says so."""
    migrator = Migrator(empty_database, PACKAGE)
    steps = len(await migrator.up())
    connection = await asyncpg.connect(empty_database)
    waiting, over, tenant = ids.new_id(), ids.new_id(), ids.new_id()
    try:
        await connection.execute(INSERT_RUN, waiting, tenant, "awaiting_approval", ids.new_id())
        await connection.execute(INSERT_RUN, over, tenant, "succeeded", None)
        await migrator.down(steps - 1)
        runs = await connection.fetch("SELECT id, state, failure_reason FROM runs")
        assert {str(r["id"]): (r["state"], r["failure_reason"]) for r in runs} == {
            waiting: ("failed", "rolled_back"),
            over: ("succeeded", None),
        }
        [event] = await connection.fetch("SELECT run_id, seq, type, data FROM run_events")
        assert (str(event["run_id"]), event["seq"], event["type"]) == (waiting, 3, "run.finished")
        assert json.loads(event["data"])["failure"]["reason"] == "rolled_back"
        assert len(await migrator.up()) == steps - 1
    finally:
        await connection.close()


async def test_a_rollback_ends_forks(empty_database: str) -> None:
    """Without its past a fork cannot go on; one that is over stays as it is."""
    migrator = Migrator(empty_database, PACKAGE)
    steps = len(await migrator.up())
    connection = await asyncpg.connect(empty_database)
    origin, live, over, tenant = (ids.new_id() for _ in range(4))
    fork = "UPDATE runs SET forked_from = $2, forked_seq = 1, forked_turn = 0 WHERE id = $1"
    try:
        await connection.execute(INSERT_RUN, origin, tenant, "queued", None)
        for run_id, state in ((live, "queued"), (over, "succeeded")):
            await connection.execute(INSERT_RUN, run_id, tenant, state, None)
            await connection.execute(fork, run_id, origin)
        await migrator.down(steps - 4)
        runs = await connection.fetch("SELECT id, state, failure_reason FROM runs")
        assert {str(r["id"]): (r["state"], r["failure_reason"]) for r in runs} == {
            origin: ("queued", None),
            live: ("failed", "rolled_back"),
            over: ("succeeded", None),
        }
        [event] = await connection.fetch("SELECT run_id, seq, type FROM run_events")
        assert (str(event["run_id"]), event["seq"], event["type"]) == (live, 3, "run.finished")
    finally:
        await connection.close()
