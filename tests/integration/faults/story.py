"""One run from its start to its end while something breaks, and what must be true of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.common.v1 import types_pb2

from tests.support.cluster import patiently
from tests.support.scripts import agent, call, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.cluster import Cluster
    from tests.support.counting import Ledger

ITEM = "x"
AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
OVER = {
    types_pb2.RUN_STATE_SUCCEEDED: "succeeded",
    types_pb2.RUN_STATE_FAILED: "failed",
    types_pb2.RUN_STATE_CANCELLED: "cancelled",
}


def spec(tool: str, *, free_turn: bool = False) -> dict[str, Any]:
    """An agent that makes one gated call of this tool, perhaps after a free one."""
    arguments = (
        {"path": "/memories/x.md", "content": "x"} if tool == "write_file" else {"item": ITEM}
    )
    turns = [turn(call("free", "count__look", item="free"))] if free_turn else []
    return agent(*turns, turn(call("c1", tool, **arguments)), interrupt_on={tool: True})


async def started(cluster: Cluster, made: dict[str, Any]) -> str:
    """The id of a new run of this agent."""
    admin, member = cluster.users["admin"], cluster.users["member"]

    async def listed() -> bool:
        return "count__fire" in await patiently(admin.tools)

    await eventually(listed, what="the tools are listed")
    await patiently(lambda: admin.save_agent(made))
    run = await patiently(
        lambda: member.start(made["name"], wait=0, idempotency_key=f"start {made['name']}")
    )
    found: str = run.id
    return found


async def paused(cluster: Cluster, run_id: str) -> bool:
    """Whether the run came to its pause; False where it ended before."""
    member = cluster.users["member"]
    run = await patiently(
        lambda: member.run(run_id), until=lambda r: r.state == AWAITING or r.state in OVER
    )
    return bool(run.state == AWAITING)


async def approved(cluster: Cluster, run_id: str) -> None:
    """Approve, and repeat it with the same key until it is answered."""
    admin = cluster.users["admin"]
    decision = {"tool_call_id": "c1", "decision": "approve"}
    answer = await patiently(
        lambda: admin.decide(run_id, decision, idempotency_key=f"decide {run_id}", timeout=3)
    )
    assert [a.decision for a in answer.approvals] == [types_pb2.DECISION_KIND_APPROVE]


async def ended(cluster: Cluster, run_id: str) -> str:
    """How the run ended."""
    member = cluster.users["member"]
    run = await patiently(lambda: member.run(run_id), until=lambda r: r.state in OVER)
    return OVER[run.state]


async def counts(cluster: Cluster, run_id: str) -> dict[str, int]:
    """How often each event is in the run's story, whose numbers must have no gap."""
    rows = await cluster.sql(
        "runner", "SELECT seq, type FROM run_events WHERE run_id = $1 ORDER BY seq", run_id
    )
    assert [r["seq"] for r in rows] == list(range(1, len(rows) + 1))
    kinds = [r["type"] for r in rows]
    return {kind: kinds.count(kind) for kind in kinds}


async def executions(cluster: Cluster, run_id: str) -> set[str]:
    """What R knows of the gated call at last, once A knows the same."""

    async def agreed() -> tuple[set[str]] | None:
        mine = await cluster.sql(
            "runner",
            "SELECT approval_id, exec_state FROM tool_calls WHERE run_id = $1 AND ruling = 'gated'",
            run_id,
        )
        theirs = await cluster.sql(
            "approvals",
            "SELECT id, execution_state FROM pending_approvals WHERE run_id = $1",
            run_id,
        )
        known = {(r["approval_id"], r["exec_state"]) for r in mine}
        same = known == {(r["id"], r["execution_state"]) for r in theirs}
        settled = all(state not in ("none", "started") for _, state in known)
        return ({state for _, state in known},) if same and settled else None

    return (await eventually(agreed, timeout=15, what="A knows what became of the call"))[0]


async def assert_decided_once(cluster: Cluster, run_id: str) -> None:
    """One approval, one decision, one row of audit, one event of each."""
    (approval,) = await cluster.sql(
        "approvals", "SELECT state, decision FROM pending_approvals WHERE run_id = $1", run_id
    )
    assert (approval["state"], approval["decision"]) == ("decided", "approve")
    (audit,) = await cluster.sql(
        "approvals",
        "SELECT count(*) AS n FROM audit_events WHERE run_id = $1"
        " AND action = 'approval.decide' AND outcome = 'ok'",
        run_id,
    )
    assert audit["n"] == 1
    told = await counts(cluster, run_id)
    for kind in ("approval.requested", "run.suspended", "approval.decided", "run.resumed"):
        assert told[kind] == 1, kind


async def assert_ran_at_most_once(
    cluster: Cluster, ledger: Ledger, run_id: str, tool: str, execution: set[str]
) -> None:
    """A call that must not be repeated left one line at most, one that has a key one key, one of
    the runner's own tools one version of a file; and none where it is said that none ran.
    """
    if tool == "write_file":
        (files,) = await cluster.sql(
            "runner", "SELECT count(*) AS n FROM files WHERE run_id = $1", run_id
        )
        done = files["n"]
    elif tool == "count__put":
        done = len({e["key"] for e in ledger.entries(ITEM)})
    else:
        done = ledger.count(ITEM)
    assert done <= 1
    if execution == {"succeeded"}:
        assert done == 1
    if execution <= {"skipped"}:
        assert done == 0
