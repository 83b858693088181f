"""What changes while a run waits for a person, and runs that are poison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hango_platform.postgres.migrate import Migrator

from tests.integration.faults import story
from tests.support.cluster import LEASE, patiently

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.cluster import Cluster
    from tests.support.counting import Ledger

    Clusters = Callable[..., AbstractAsyncContextManager[Cluster]]

FIRE = "count__fire"


@pytest.mark.parametrize("change", ["the tool is gone", "the schema is another"])
async def test_the_tool_changes(clusters: Clusters, ledger: Ledger, change: str) -> None:
    """An approved call whose tool is gone, or takes these arguments no more, is an error result:
    nothing runs, nobody is asked again, and the run goes on.
    """
    async with clusters() as cluster:
        run_id = await story.started(cluster, story.spec(FIRE))
        assert await story.paused(cluster, run_id)
        cluster.forget("runner")
        await cluster.processes["runner"].stop()
        if change == "the tool is gone":
            ledger.tool_servers.write_text("")
        else:
            (ledger.folder / "strict").touch()
        await cluster.boot("runner")
        await story.approved(cluster, run_id)
        assert await story.ended(cluster, run_id) == "succeeded"
        assert await story.executions(cluster, run_id) == {"failed"}
        await story.assert_decided_once(cluster, run_id)
        assert ledger.count(story.ITEM) == 0
        (told,) = await cluster.sql(
            "runner", "SELECT is_error FROM messages WHERE run_id = $1 AND role = 'tool'", run_id
        )
        assert told["is_error"]


async def test_the_schema_goes_down_and_up_again(clusters: Clusters, ledger: Ledger) -> None:
    """R's pauses are taken back: the waiting run fails as `rolled_back` and says so, A's approval
    of it is withdrawn later, and after the way up again runs pause as ever.
    """
    async with clusters() as cluster:
        run_id = await story.started(cluster, story.spec(FIRE))
        assert await story.paused(cluster, run_id)
        cluster.forget("runner")
        await cluster.processes["runner"].stop()
        migrator = Migrator(cluster.runner_dsn, "hango_runner.postgres")
        await _down_to_before_pauses(migrator, cluster)
        (row,) = await cluster.sql(
            "runner", "SELECT state, failure_reason FROM runs WHERE id = $1", run_id
        )
        assert (row["state"], row["failure_reason"]) == ("failed", "rolled_back")
        assert (await story.counts(cluster, run_id))["run.finished"] == 1
        await migrator.up()
        await cluster.boot("runner")
        other = await story.started(cluster, story.spec(FIRE))
        assert await story.paused(cluster, other)
        await story.approved(cluster, other)
        assert await story.ended(cluster, other) == "succeeded"
        assert ledger.count(story.ITEM) == 1


async def _down_to_before_pauses(migrator: Migrator, cluster: Cluster) -> None:
    async def rolled_back() -> bool:
        rows = await cluster.sql("runner", "SELECT FROM runs WHERE state = 'awaiting_approval'")
        return not rows

    for _ in range(20):
        await migrator.down(1)
        if await rolled_back():
            return
    message = "no migration takes the pauses back"
    raise AssertionError(message)


async def test_a_run_that_kills_its_worker_each_time(clusters: Clusters, ledger: Ledger) -> None:
    """Poison: whoever drives this run dies of it. After five more tries it fails as
    `recovery_exhausted`; its tool ran once.
    """
    own: dict[str, Any] = {"runner": {"HANGO_FAULT": "before_batch:kill9", "HANGO_LEASE_TTL": "1s"}}
    async with clusters(own=own) as cluster:
        run_id = await story.started(cluster, story.spec(FIRE))
        assert await story.paused(cluster, run_id)
        await story.approved(cluster, run_id)
        member = cluster.users["member"]
        run = await patiently(
            lambda: member.run(run_id), timeout=60, until=lambda r: r.state in story.OVER
        )
        assert run.failure.reason == "recovery_exhausted"
        assert cluster.starts["runner"] == 1 + 6
        assert await story.executions(cluster, run_id) == {"succeeded"}
        assert ledger.count(story.ITEM) == 1
        await story.assert_decided_once(cluster, run_id)


async def test_a_lost_lease_is_noticed_in_time(clusters: Clusters, ledger: Ledger) -> None:
    """A worker dies right after it took a run: another has it within the lease and 2 s."""
    async with clusters(fault={"runner": "after_answer:kill9"}) as cluster:
        run_id = await story.started(cluster, story.spec(FIRE, free_turn=True))
        assert await story.paused(cluster, run_id)
        steps = await cluster.sql(
            "runner",
            "SELECT type, extract(epoch FROM at - lag(at) OVER (ORDER BY seq)) AS after"
            " FROM run_events WHERE run_id = $1 ORDER BY seq",
            run_id,
        )
        taken_up = next(s["after"] for s in steps if s["type"] == "tool.started")
        assert LEASE / 2 < taken_up <= LEASE + 2
