"""A deadline that passes, and the three clocks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import nats
import pytest
from hango.common.v1 import types_pb2
from hango_platform import ids
from hango_platform.errors import ApprovalsClosed

from tests.support.scripts import GATED, agent, assert_valid, fire, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.counting import Gate, Ledger
    from tests.support.scripts import Recorder
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
FAILED = types_pb2.RUN_STATE_FAILED
APPROVE = {"tool_call_id": "c1", "decision": "approve"}


async def paused(admin: Client, member: Client, item: str, **more: Any) -> Any:
    """A run that waits for a decision on a call."""
    spec = agent(turn(fire("c1", item)), interrupt_on=GATED)
    await admin.save_agent(spec)
    run = await member.start(spec["name"], **more)
    assert run.state == AWAITING
    return run


async def overdue(stack: Stack, run_id: str) -> None:
    """Let the deadline of this run's suspension have passed; nothing has swept it yet."""
    await stack.sql(
        "approvals",
        "UPDATE suspensions SET expires_at = clock_timestamp() - interval '1 ms' WHERE run_id = $1",
        run_id,
    )


async def test_expiry_fails_the_run_and_announces_it(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: expiry fails the run (`approval_expired`, `approval expired`) and announces it: in
    the story's order, and on NATS.
    """
    listener = await nats.connect(stack.nats_url)
    inbox = await listener.subscribe("hango.demo.>")
    await listener.flush()
    run = await paused(admin, member, "expiry")
    await overdue(stack, run.id)
    swept = await stack.maintain("ExpireSuspensions")
    assert swept.expired == 1
    run = await member.finished(run.id)
    assert run.state == FAILED
    assert (run.failure.reason, run.failure.message) == ("approval_expired", "approval expired")
    assert not run.HasField("awaiting_since")
    kinds = [e.type for e in await member.events(run.id)]
    assert kinds[-4:] == [
        "approval.requested",
        "run.suspended",
        "approval.expired",
        "run.finished",
    ]
    last = json.loads((await member.events(run.id))[-1].data_json)
    assert last["failure"] == {"reason": "approval_expired", "message": "approval expired"}
    told: set[str] = set()
    async with asyncio.timeout(5):
        while len(told) < 3:
            message = await inbox.next_msg(timeout=5)
            if json.loads(message.data)["run_id"] == run.id:
                told.add(message.subject)
                assert message.headers is not None
                assert message.headers["Nats-Msg-Id"] == message.headers["ce-id"]
                told -= {"hango.demo.run.resume.v1"}
    assert told == {
        f"hango.demo.{kind}.v1"
        for kind in ("approval.requested", "approval.expired", "run.finished")
    }
    await listener.close()
    (approval,) = await admin.approval_list(run.id)
    assert approval.state == types_pb2.APPROVAL_STATE_EXPIRED
    (audited,) = await admin.audit(run_id=run.id, action="approval.expire")
    assert (audited.actor_kind, audited.actor_id) == ("system", "")
    assert ledger.count("expiry") == 0


async def test_too_late_though_nothing_swept(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """A decide after the deadline is closed as expired, though no sweeper came by, and the run
    fails."""
    run = await paused(admin, member, "unswept")
    await overdue(stack, run.id)
    with pytest.raises(ApprovalsClosed) as refused:
        await admin.decide(run.id, APPROVE)
    assert refused.value.members["state"] == "expired"
    assert (await member.finished(run.id)).failure.reason == "approval_expired"
    assert ledger.count("unswept") == 0


async def test_waiting_working_and_expiry_are_three_clocks(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 30: a client polls with a short timeout, the tool may take 1 s, and the human takes an
    hour: neither ends the approval, and the tool still has its own time.
    """
    spec = agent(turn(fire("c1", "clocks")), interrupt_on=GATED, limits={"tool_timeout": "1s"})
    await admin.save_agent(spec)
    run = await member.start(spec["name"])
    polled = await member.run(run.id, wait=0.001)
    assert polled.state == AWAITING
    for database, table in (("runner", "runs"), ("approvals", "suspensions")):
        column = "awaiting_since" if table == "runs" else "created_at"
        await stack.sql(
            database,
            f"UPDATE {table} SET {column} = {column} - interval '1 hour' WHERE "
            + ("id = $1" if table == "runs" else "run_id = $1"),
            run.id,
        )
    for method in ("ReapRuns", "ExpireSuspensions", "ReconcileRuns", "ReconcileSuspensions"):
        await stack.maintain(method)
    assert (await member.run(run.id)).state == AWAITING
    await admin.decide(run.id, APPROVE)
    assert (await member.finished(run.id)).state == types_pb2.RUN_STATE_SUCCEEDED
    assert ledger.count("clocks") == 1


async def test_a_tool_that_takes_too_long_is_unknown(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 30: only the tool's own time counts against `tool_timeout`; past it a `once` call has
    an unknown outcome and is not repeated.
    """
    gate = ledger.hold("slow")
    spec = agent(turn(fire("c1", "slow")), interrupt_on=GATED, limits={"tool_timeout": "0.2s"})
    await admin.save_agent(spec)
    run = await member.start(spec["name"])
    await admin.decide(run.id, APPROVE)
    await member.finished(run.id)
    (result,) = [m for m in await member.messages(run.id) if m.role == "tool"]
    assert result.is_error
    assert "unknown" in json.loads(result.content_json)
    assert ledger.count("slow") == 1
    gate.remove()


@pytest.mark.parametrize("how", ["expired", "cancelled", "crashed"])
async def test_expiry_crash_and_cancel_are_told_apart(
    stack: Stack,
    admin: Client,
    member: Client,
    ledger: Ledger,
    recorder: Recorder,
    how: str,
) -> None:
    """Case 22: expiry, crash and cancel of a call give three different results in a following run
    of the thread, all errors; none wrongly says that somebody cancelled. A result that comes after
    the end of its run is what later runs are told.
    """
    item = f"apart-{how}"
    spec = agent(turn(fire("c1", item)), interrupt_on=GATED)
    await admin.save_agent(spec)
    thread = ids.new_id()
    run = await member.start(spec["name"], thread_id=thread)
    gate: Gate | None = None
    if how == "expired":
        await overdue(stack, run.id)
        await stack.maintain("ExpireSuspensions")
    elif how == "cancelled":
        await member.cancel(run.id)
    else:
        gate = await _crashed(stack, admin, ledger, run.id, item)
    await member.finished(run.id)
    result = await _told_next(member, recorder, spec["name"], thread)
    said = {"expired": "in time", "cancelled": "cancelled before", "crashed": "unknown"}
    assert result.is_error
    assert [h for h, words in said.items() if words in result.content] == [how]
    if gate is not None:
        await gate.open()
        await eventually(lambda: _succeeded(stack, run.id), what="the result is stored")
        result = await _told_next(member, recorder, spec["name"], thread)
        assert (result.content, result.is_error) == (f"fire {item} 0", False)


async def _crashed(stack: Stack, admin: Client, ledger: Ledger, run_id: str, item: str) -> Gate:
    """Let the run end while its call is under way, as if its workers had died too often."""
    gate = ledger.hold(item)
    await admin.decide(run_id, APPROVE)
    await gate.reached()
    await stack.sql(
        "runner",
        "UPDATE runs SET attempts = 5, lease_until = clock_timestamp() - interval '1 s'"
        " WHERE id = $1",
        run_id,
    )
    await stack.maintain("ReapRuns")
    run = await admin.finished(run_id)
    assert run.failure.reason == "recovery_exhausted"
    return gate


async def _told_next(member: Client, recorder: Recorder, name: str, thread: str) -> Any:
    """What a further run of the thread is shown as the result of the call."""
    text = f"next {ids.new_id()}"
    await member.start(name, text, thread_id=thread)
    (seen,) = recorder.about(text)
    assert_valid(seen)
    (result,) = [m for m in seen if m.role == "tool"]
    return result


async def _succeeded(stack: Stack, run_id: str) -> bool:
    rows = await stack.sql("runner", "SELECT exec_state FROM tool_calls WHERE run_id = $1", run_id)
    return [r["exec_state"] for r in rows] == ["succeeded"]
