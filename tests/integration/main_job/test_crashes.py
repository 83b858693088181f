"""The runner dies at every step of a run, is started again, and the run ends as it should.

One death serves all: each run is held at its own point, then the runner is killed, its leases run
out, and everything must go on.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform import faults

from tests.integration.main_job.conftest import tools_listed
from tests.support.scripts import agent, call, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.counting import Ledger
    from tests.support.stack import Client, Stack

SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
UNDECIDED = ["before_suspend", "after_suspend", "after_open_call", "after_opened"]
DECIDED = [
    "before_journal_commit",
    "after_journal_commit",
    "after_effect",
    "before_result",
    "after_result",
    "before_batch",
    "after_batch",
    "before_finish",
    "after_finish",
]
HELD = {"once": "count__fire", "keyed": "count__put", "read": "count__look"}
CASES = [*UNDECIDED, *DECIDED, *HELD]


@dataclass
class Points:
    """Where each run is to stop for ever, and which have come there."""

    plan: dict[str, asyncio.Future[str]] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)

    def stop(self, run_id: str, point: str) -> None:
        """Let this run stop at this point. No step is taken before its run was named here."""
        self._planned(run_id).set_result(point)

    def _planned(self, run_id: str) -> asyncio.Future[str]:
        return self.plan.setdefault(run_id, asyncio.get_running_loop().create_future())

    async def has_reached(self, run_id: str) -> bool:
        """Whether this run has come to its point."""
        return run_id in self.reached

    async def reach(self, point: str) -> None:
        """Stands for `faults.reach`."""
        task = asyncio.current_task()
        assert task is not None
        kind, _, run_id = task.get_name().partition(" ")
        if kind == "run" and await self._planned(run_id) == point:
            self.reached.add(run_id)
            await asyncio.Event().wait()


@dataclass
class Aftermath:
    """The stack after the death, and the run of each case."""

    stack: Stack
    ledger: Ledger
    runs: dict[str, str]
    reaped: int

    async def over(self, case: str) -> tuple[Any, Any]:
        """The run of a case at its end, and its call's result."""
        member = self.stack.users["member"]
        run_id = self.runs[case]
        if case in UNDECIDED:
            await member.until(run_id, "run.suspended")
            await self.stack.users["admin"].decide_all(run_id, "approve")
        run = await member.finished(run_id)
        assert run.state == SUCCEEDED, run.failure
        (result,) = [m for m in await member.messages(run_id) if m.role == "tool"]
        return run, result


@pytest.fixture(scope="module")
async def aftermath(
    postgres_server: PostgresServer, nats_server: NatsServer, ledger: Ledger
) -> AsyncIterator[Aftermath]:
    """Every case's run was held at its point when the runner died; it is up again."""
    points, runs = Points(), {}
    async with running_stack(
        postgres_server, nats_server, tool_servers=ledger.tool_servers
    ) as stack:
        await tools_listed(stack)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(faults, "ACTIVE", True)
            patch.setattr(faults, "reach", points.reach)
            gates = [ledger.hold(kind) for kind in HELD]
            for case in CASES:
                runs[case] = await _begin(stack, case)
                points.stop(runs[case], case)
            for case in DECIDED + list(HELD):
                await stack.users["member"].run(runs[case], wait=10)
                await stack.users["admin"].decide_all(runs[case], "approve")
            for gate in gates:
                await gate.reached()
            for case in UNDECIDED + DECIDED:
                await eventually(partial(points.has_reached, runs[case]), what=case)
            await stack.kill("runner")
        for gate in gates:
            gate.remove()
        await stack.start_runner()
        await tools_listed(stack)
        yield Aftermath(stack, ledger, runs, await _reap(stack))


async def _begin(stack: Stack, case: str) -> str:
    tool = HELD.get(case, "count__fire")
    spec = agent(turn(call("c1", tool, item=case)), interrupt_on={"count__*": True})
    await stack.users["admin"].save_agent(spec)
    found: str = (await stack.users["member"].start(spec["name"], wait=0)).id
    return found


async def _reap(stack: Stack) -> int:
    """Take the dead worker's runs from it, its leases being over; how many there were."""
    await stack.sql(
        "runner",
        "UPDATE runs SET lease_until = clock_timestamp() - interval '1 ms' WHERE state = 'running'",
    )
    reaped: int = (await stack.maintain("ReapRuns")).reaped
    return reaped


async def test_leases_of_a_dead_worker_run_out(aftermath: Aftermath) -> None:
    """Lease expiry → reaped and re-driven: all runs that were being worked on, and no other."""
    let_go = {"after_suspend", "after_open_call", "after_opened", "after_finish"}
    assert aftermath.reaped == len(set(CASES) - let_go)


@pytest.mark.parametrize(
    "case",
    [
        *UNDECIDED,
        "before_journal_commit",
        "after_result",
        "before_batch",
        "after_batch",
        "before_finish",
        "after_finish",
    ],
)
async def test_a_crash_around_a_commit_loses_and_repeats_nothing(
    aftermath: Aftermath, case: str
) -> None:
    """A crash before or after an answer, a suspension, its opening, a result, a batch or the end:
    the run goes on from what was committed, and a completed call is not run again.
    """
    run, result = await aftermath.over(case)
    assert run.state == SUCCEEDED
    assert json.loads(result.content_json) == f"fire {case} 0"
    assert aftermath.ledger.count(case) == 1
    assert (await aftermath.stack.users["admin"].run(run.id)).usage.model_calls == 2


@pytest.mark.parametrize(
    ("case", "ran"),
    [("after_journal_commit", 0), ("after_effect", 1), ("before_result", 1), ("once", 1)],
)
async def test_a_started_call_that_may_run_once_is_not_repeated(
    aftermath: Aftermath, case: str, ran: int
) -> None:
    """A crash after T7 of a `once` call, before, during or after its effect: the outcome is
    unknown, said so, visible, and the call is not repeated.
    """
    run, result = await aftermath.over(case)
    assert run.state == SUCCEEDED
    assert result.is_error
    assert "unknown" in json.loads(result.content_json)
    assert aftermath.ledger.count(case) == ran

    async def reported() -> bool:
        (approval,) = await aftermath.stack.users["admin"].approval_list(run.id)
        return bool(approval.execution_state == types_pb2.EXECUTION_STATE_UNKNOWN)

    await eventually(reported, what="the unknown outcome is reported")


@pytest.mark.parametrize("case", ["keyed", "read"])
async def test_a_started_call_that_may_be_repeated_is(aftermath: Aftermath, case: str) -> None:
    """A crash in a `keyed` or `read` call: it is run again, with the same key."""
    run, result = await aftermath.over(case)
    assert run.state == SUCCEEDED
    assert not result.is_error
    entries = aftermath.ledger.entries(case)
    assert len(entries) == 2
    assert len({e["key"] for e in entries}) == 1
    assert entries[0]["key"]


async def test_a_crash_leaves_no_gap_in_a_story(aftermath: Aftermath) -> None:
    """The numbers of every run's events are 1, 2, 3 …; each story ends once."""
    member: Client = aftermath.stack.users["member"]
    for case in CASES:
        await aftermath.stack.users["admin"].finished(aftermath.runs[case])
        events = await member.events(aftermath.runs[case])
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        kinds = [e.type for e in events]
        assert kinds.count("run.finished") == kinds.count("run.suspended") == 1
        assert kinds.index("approval.requested") < kinds.index("approval.decided")


@pytest.mark.parametrize("tool", ["count__put", "count__fire"])
async def test_a_tool_server_that_dies_in_mid_call(aftermath: Aftermath, tool: str) -> None:
    """A server that dies in mid-call leaves an unknown outcome: `keyed` is repeated with the same
    key, `once` is not.
    """
    stack, ledger = aftermath.stack, aftermath.ledger
    admin, item = stack.users["admin"], f"died-{tool}"
    ledger.die_once(item)
    spec = agent(turn(call("c1", tool, item=item)), interrupt_on={"count__*": True})
    await admin.save_agent(spec)
    run = await admin.start(spec["name"])
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id)).state == SUCCEEDED
    (result,) = [m for m in await admin.messages(run.id) if m.role == "tool"]
    once = tool == "count__fire"
    assert result.is_error == once
    assert ("unknown" in json.loads(result.content_json)) == once
    entries = ledger.entries(item)
    assert len(entries) == (1 if once else 2)
    assert len({e["key"] for e in entries}) == 1


async def test_a_run_that_resumes_at_a_start_still_finds_its_tools(aftermath: Aftermath) -> None:
    """A decision that was taken while the runner was down is carried out when it is up again,
    though the tool servers come up at the same moment: the approved call runs once.
    """
    stack, ledger = aftermath.stack, aftermath.ledger
    admin = stack.users["admin"]
    spec = agent(turn(call("c1", "count__fire", item="at-start")), interrupt_on={"count__*": True})
    await admin.save_agent(spec)
    run = await admin.start(spec["name"])
    await stack.kill("runner")
    await admin.decide_all(run.id, "approve")
    await stack.start_runner()
    assert (await admin.finished(run.id)).state == SUCCEEDED
    (result,) = [m for m in await admin.messages(run.id) if m.role == "tool"]
    assert (json.loads(result.content_json), result.is_error) == ("fire at-start 0", False)
    assert ledger.count("at-start") == 1


async def test_a_lease_that_nobody_renews_runs_out(
    aftermath: Aftermath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lease expiry by the clock: the run is taken from its dead worker and driven again."""
    stack, ledger = aftermath.stack, aftermath.ledger
    admin, gate = stack.users["admin"], ledger.hold("leased")
    monkeypatch.setattr(stack, "overrides", {"runner": {"lease_ttl": "1s"}})
    await stack.stop("runner")
    await stack.start_runner()
    spec = agent(turn(call("c1", "count__put", item="leased")))
    await admin.save_agent(spec)
    run = await admin.start(spec["name"], wait=0)
    await gate.reached()
    await stack.kill("runner")
    gate.remove()
    await stack.start_runner()
    await eventually(partial(_reaped, stack, run.id), what="the lease ends")
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert ledger.count("leased") == 2


async def _reaped(stack: Stack, run_id: str) -> bool:
    await stack.maintain("ReapRuns")
    (row,) = await stack.sql("runner", "SELECT lease_epoch FROM runs WHERE id = $1", run_id)
    return int(row["lease_epoch"]) > 1
