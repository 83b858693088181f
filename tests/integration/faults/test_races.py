"""Two at once, with the loser held where it does the most harm: no test here sleeps to win."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import nats as nats_client
import pytest
from hango.common.v1 import types_pb2
from hango_cli.embedded.ports import choose_port
from hango_platform import ids
from hango_platform.bus import subjects

from tests.integration.faults import story
from tests.support.cluster import LEASE, patiently
from tests.support.scripts import GATED, agent, fire, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.cluster import Cluster
    from tests.support.counting import Ledger

    Clusters = Callable[..., AbstractAsyncContextManager[Cluster]]

FIRE = "count__fire"


@asynccontextmanager
async def publisher(cluster: Cluster) -> AsyncIterator[Callable[..., Any]]:
    """Publishes as whoever has the broker's password could: hints are not trusted."""
    client = await nats_client.connect(cluster.nats_url)
    try:
        stream = client.jetstream()

        async def publish(body: dict[str, str] | bytes, **headers: str) -> None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            await stream.publish(subjects.event("demo", "run.resume"), payload, headers=headers)

        yield publish
    finally:
        await client.close()


async def hint_of(cluster: Cluster, run_id: str) -> dict[str, str]:
    """The hint that tells of this run's present suspension."""
    (row,) = await cluster.sql(
        "runner", "SELECT tenant_id, suspension_id FROM runs WHERE id = $1", run_id
    )
    return {
        "tenant_id": str(row["tenant_id"]),
        "run_id": run_id,
        "suspension_id": str(row["suspension_id"]),
    }


async def paused_run(cluster: Cluster, made: dict[str, Any]) -> str:
    """A run that waits."""
    run_id = await story.started(cluster, made)
    assert await story.paused(cluster, run_id)
    return run_id


async def second_runner(cluster: Cluster) -> None:
    """Another runner on the same database, and the sweeper, which calls that one."""
    address = f"127.0.0.1:{choose_port()}"
    cluster.processes["other"] = cluster.launch("runner", HANGO_RUNNER_ADDR=address)
    cluster.processes["sweeper"] = cluster.launch("sweeper", HANGO_RUNNER_ADDR=address)


async def test_cancel_before_the_suspension_is_opened(clusters: Clusters, ledger: Ledger) -> None:
    """A is frozen: the run has suspended, and A does not know yet. The cancel is answered, and
    what A is told later opens nothing.
    """
    async with clusters(keep=False) as cluster:
        admin, member = cluster.users["admin"], cluster.users["member"]
        made = story.spec(FIRE)
        await admin.save_agent(made)
        await eventually(lambda: _listed(cluster), what="the tools are listed")
        await member.runs()  # from now on R knows the member for a second
        cluster.processes["approvals"].send(signal.SIGSTOP)
        run = await member.start(made["name"], wait=0)

        async def suspended() -> bool:
            rows = await cluster.sql("runner", "SELECT state FROM runs WHERE id = $1", run.id)
            return bool(rows[0]["state"] == "awaiting_approval")

        await eventually(suspended, what="the run suspends")
        cancelling = asyncio.create_task(_cancel(cluster, run.id))
        await asyncio.wait([cancelling], timeout=4)
        cluster.processes["approvals"].send(signal.SIGCONT)
        await cancelling
        assert await story.ended(cluster, run.id) == "cancelled"

        async def withdrawn() -> bool:
            rows = await cluster.sql("approvals", "SELECT state FROM suspensions")
            return [r["state"] for r in rows] == ["withdrawn"]

        await eventually(withdrawn, what="A knows that the suspension is withdrawn")
        told = await story.counts(cluster, run.id)
        assert told.get("approval.requested", 0) == told.get("approval.withdrawn", 0)
        assert told["run.finished"] == 1
        assert ledger.count(story.ITEM) == 0


async def _listed(cluster: Cluster) -> bool:
    return FIRE in await cluster.users["admin"].tools()


async def _cancel(cluster: Cluster, run_id: str) -> None:
    member = cluster.users["member"]
    await patiently(lambda: member.cancel(run_id, idempotency_key="cancel"))


async def _knows_it_lost(cluster: Cluster) -> bool:
    said = partial(cluster.said, cluster.processes["runner"])
    return bool(said("run is not ours any more") or said("lease ran out"))


async def test_a_worker_frozen_in_mid_tool(clusters: Clusters, ledger: Ledger) -> None:
    """Frozen past its lease with a call under way: another goes on without it and does not repeat
    the call; when it thaws, the conversation stays as it is.
    """
    async with clusters(services=("approvals", "runner"), keep=False) as cluster:
        gate = ledger.hold(story.ITEM)
        run_id = await paused_run(cluster, story.spec(FIRE))
        await story.approved(cluster, run_id)
        await gate.reached()
        cluster.processes["runner"].send(signal.SIGSTOP)
        await second_runner(cluster)

        async def over() -> bool:
            rows = await cluster.sql("runner", "SELECT state FROM runs WHERE id = $1", run_id)
            return bool(rows[0]["state"] == "succeeded")

        await eventually(over, timeout=LEASE + 10, what="the other runner ends the run")
        assert await story.executions(cluster, run_id) == {"unknown"}
        cluster.processes["runner"].send(signal.SIGCONT)
        await gate.open()
        await eventually(partial(_knows_it_lost, cluster), what="the frozen worker finds out")
        # Whether the late result is still taken down, as T8 allows, is the scheduler's choice.
        assert await story.executions(cluster, run_id) <= {"unknown", "succeeded"}
        assert ledger.count(story.ITEM) == 1
        (told,) = await cluster.sql(
            "runner",
            "SELECT is_error, content FROM messages WHERE run_id = $1 AND role = 'tool'",
            run_id,
        )
        assert told["is_error"]
        assert "unknown" in told["content"]


async def test_a_worker_frozen_in_a_model_call(clusters: Clusters, ledger: Ledger) -> None:
    """Frozen while the model answers: another asks again, and the late answer is dropped."""
    async with clusters(services=("approvals", "runner"), keep=False) as cluster:
        made = agent(turn(fire("c1", story.ITEM), delay_ms=3000), interrupt_on=GATED)
        run_id = await story.started(cluster, made)
        member = cluster.users["member"]
        await member.until(run_id, "run.started")
        cluster.processes["runner"].send(signal.SIGSTOP)
        await second_runner(cluster)

        async def opened() -> bool:
            rows = await cluster.sql(
                "runner",
                "SELECT FROM runs WHERE id = $1 AND lease_epoch > 1 AND state = 'awaiting_approval'"
                " AND suspension_opened_at IS NOT NULL",
                run_id,
            )
            return bool(rows)

        await eventually(opened, timeout=LEASE + 10, what="the other runner pauses the run")
        cluster.processes["runner"].send(signal.SIGCONT)
        await eventually(partial(_knows_it_lost, cluster), what="the frozen worker finds out")
        await story.approved(cluster, run_id)
        assert await story.ended(cluster, run_id) == "succeeded"
        assert ledger.count(story.ITEM) == 1
        await story.assert_decided_once(cluster, run_id)


async def test_hints_repeated_inside_and_outside_the_dedupe_window(
    clusters: Clusters, ledger: Ledger
) -> None:
    """The same hint ten times with one id, which the broker drops, and ten times with ids of its
    own: the run resumes once.
    """
    own = {"sweeper": {"HANGO_RECONCILE_INTERVAL": "1h"}}
    async with clusters(own=own) as cluster, publisher(cluster) as publish:
        gate = ledger.hold(story.ITEM)
        run_id = await paused_run(cluster, story.spec(FIRE))
        hint = await hint_of(cluster, run_id)
        await story.approved(cluster, run_id)
        await gate.reached()
        for _ in range(10):
            await publish(hint, **{"Nats-Msg-Id": "the-same"})
            await publish(hint, **{"Nats-Msg-Id": ids.new_id()})
        await gate.open()
        assert await story.ended(cluster, run_id) == "succeeded"
        await publish(hint)
        await story.assert_decided_once(cluster, run_id)
        assert ledger.count(story.ITEM) == 1


async def test_a_hint_of_generation_1_in_generation_2(clusters: Clusters, ledger: Ledger) -> None:
    """The run waits at its second gate; the hint of the first comes once more. Case 3."""
    own = {"sweeper": {"HANGO_RECONCILE_INTERVAL": "1h"}}
    async with clusters(own=own) as cluster, publisher(cluster) as publish:
        made = agent(turn(fire("c1", "one")), turn(fire("c1", "two")), interrupt_on=GATED)
        run_id = await paused_run(cluster, made)
        first = await hint_of(cluster, run_id)
        await story.approved(cluster, run_id)
        member = cluster.users["member"]
        await member.until(run_id, "run.suspended", times=2)
        await publish(first)
        await publish(b"\xff not json")
        # Hints are taken in order: once another run has resumed, these were looked into.
        other = await paused_run(cluster, story.spec(FIRE))
        await story.approved(cluster, other)
        assert await story.ended(cluster, other) == "succeeded"
        run = await member.run(run_id)
        assert (run.state, run.pending_approvals) == (story.AWAITING, 1)
        assert (ledger.count("one"), ledger.count("two")) == (1, 0)


@pytest.mark.parametrize("service", ["runner", "approvals"])
async def test_gate_2_stays_shut_when_a_service_restarts(
    clusters: Clusters, ledger: Ledger, service: str
) -> None:
    """Case 3: gate 1 approved, the run at gate 2, a service killed and started again."""
    async with clusters() as cluster:
        made = agent(turn(fire("c1", "one")), turn(fire("c1", "two")), interrupt_on=GATED)
        run_id = await paused_run(cluster, made)
        await story.approved(cluster, run_id)
        member = cluster.users["member"]
        await member.until(run_id, "run.suspended", times=2)
        before = cluster.starts[service]
        await cluster.processes[service].kill()

        async def up_again() -> bool:
            return cluster.starts[service] > before

        await eventually(up_again, what=f"{service} is started again")
        await patiently(lambda: cluster.maintain("ReconcileRuns"))
        await patiently(lambda: cluster.maintain("ReapRuns"))
        run = await patiently(lambda: member.run(run_id))
        assert (run.state, run.pending_approvals) == (story.AWAITING, 1)
        pending = await patiently(
            lambda: member.approval_list(run_id, state=types_pb2.APPROVAL_STATE_PENDING)
        )
        assert [json.loads(a.arguments_json)["item"] for a in pending] == ["two"]
        assert (ledger.count("one"), ledger.count("two")) == (1, 0)


async def test_a_hint_that_comes_while_a_is_away(clusters: Clusters, ledger: Ledger) -> None:
    """The runner hears of a decision and cannot ask: it asks again, without the reconciler."""
    own = {"sweeper": {"HANGO_RECONCILE_INTERVAL": "1h"}}
    async with clusters(own=own, keep=False) as cluster:
        run_id = await paused_run(cluster, story.spec(FIRE))
        cluster.processes["runner"].send(signal.SIGSTOP)
        await story.approved(cluster, run_id)

        async def published() -> bool:
            rows = await cluster.sql(
                "approvals", "SELECT count(*) AS n FROM outbox WHERE published_at IS NULL"
            )
            return bool(rows[0]["n"] == 0)

        await eventually(published, what="the hint is on its way")
        await cluster.processes["approvals"].kill()
        cluster.processes["runner"].send(signal.SIGCONT)
        member = cluster.users["member"]
        await patiently(lambda: member.events(run_id))  # it is awake
        await cluster.boot("approvals")
        assert await story.ended(cluster, run_id) == "succeeded"
        await story.assert_decided_once(cluster, run_id)
        assert ledger.count(story.ITEM) == 1
