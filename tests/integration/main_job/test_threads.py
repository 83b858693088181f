"""Conversations over several runs, and cancelling in every state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform import ids
from hango_platform.errors import (
    ApprovalsClosed,
    InvalidRequest,
    NotFound,
    RunFinished,
    ThreadBusy,
)

from tests.support import history
from tests.support.scripts import GATED, agent, assert_valid, call, fire, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.scripts import Recorder
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
CANCELLED = types_pb2.RUN_STATE_CANCELLED
APPROVE = {"tool_call_id": "c1", "decision": "approve"}
SKIPPED = types_pb2.EXECUTION_STATE_SKIPPED


async def saved(admin: Client, *turns: dict[str, Any], **more: Any) -> str:
    """The name of a new agent whose calls of the firing tool are gated."""
    spec = agent(*turns, **{"interrupt_on": GATED, **more})
    await admin.save_agent(spec)
    name: str = spec["name"]
    return name


async def execution(admin: Client, run_id: str, state: int) -> None:
    """Wait until A has been told that this became of the run's call."""

    async def reported() -> bool:
        (approval,) = await admin.approval_list(run_id)
        return bool(approval.execution_state == state)

    await eventually(reported, what="the execution is reported")


async def test_a_conversation_goes_on(
    stack: Stack, admin: Client, member: Client, ledger: Ledger, recorder: Recorder
) -> None:
    """A thread: the next run sees what was said and done before; ids used in an earlier run are
    not used again; the thread's files are there, another thread's are not.
    """
    name = await saved(
        admin,
        turn(fire("c1", "thread"), call("c2", "write_file", path="/plan.md", content="one")),
        turn(text="first done"),
        turn(fire("c1", "thread"), call("c2", "read_file", path="/plan.md")),
    )
    thread, again = ids.new_id(), f"again {ids.new_id()}"
    first = await member.start(name, thread_id=thread)
    await admin.decide_all(first.id, "approve")
    first = await member.finished(first.id)
    assert json.loads(first.output_json) == "first done"
    second = await member.start(name, again, thread_id=thread)
    assert second.state == AWAITING
    (approval,) = await admin.approval_list(second.id)
    assert approval.tool_call_id != "c1"
    await admin.decide_all(second.id, "approve")
    assert (await member.finished(second.id)).thread_id == thread
    asked, after = recorder.about(again)
    for seen in (asked, after):
        assert_valid(seen)
    assert [m.role for m in asked] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert after[-1].content == "one"
    assert ledger.count("thread") == 2
    assert [r.id for r in await member.runs(thread_id=thread)] == [second.id, first.id]


async def test_a_thread_is_busy_while_a_run_is_paused(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 23: a new message on a thread whose run is paused: 409; nothing is lost, and after the
    decision both go through.
    """
    name = await saved(admin, turn(fire("c1", "busy")))
    thread = ids.new_id()
    run = await member.start(name, thread_id=thread)
    with pytest.raises(ThreadBusy):
        await member.start(name, "more", thread_id=thread)
    assert (await member.run(run.id)).state == AWAITING
    assert [m.role for m in await member.messages(run.id)] == ["user", "assistant"]
    await admin.decide(run.id, APPROVE)
    assert (await member.finished(run.id)).state == SUCCEEDED
    assert ledger.count("busy") == 1
    assert (await member.start(name, "more", thread_id=thread)).state == SUCCEEDED


async def test_a_thread_is_its_creators(stack: Stack, admin: Client, member: Client) -> None:
    """A thread is private to its creator (404 for another member, the admin may use it) and bound
    to its first agent; another tenant's thread of the same name is another thread.
    """
    name, other_agent = await saved(admin), await saved(admin)
    thread = ids.new_id()
    await member.start(name, "secret", thread_id=thread)
    with pytest.raises(NotFound):
        await stack.users["other-member"].start(name, thread_id=thread)
    with pytest.raises(InvalidRequest):
        await member.start(other_agent, thread_id=thread)
    with pytest.raises(NotFound):
        await member.start("no-such-agent", thread_id=thread)
    assert (await admin.start(name, thread_id=thread)).state == SUCCEEDED
    b_name = await saved(stack.users["b-admin"])
    theirs = await stack.users["b-member"].start(b_name, thread_id=thread)
    assert len(await stack.users["b-member"].messages(theirs.id)) == 2
    assert await stack.users["other-member"].runs(thread_id=thread) == []


async def test_threads_are_listed_and_read(stack: Stack, admin: Client, member: Client) -> None:
    """Newest first, by pages; an owner or an admin sees all, a member his own; how many runs there
    are and which one is live; the conversation over all runs, of those that the caller may see.
    """
    name = await saved(admin, turn(fire("c1", "listed")), turn(text="first"))
    ours = [ids.new_id() for _ in range(3)]
    runs = [await member.start(name, thread_id=thread) for thread in ours]
    theirs = ids.new_id()
    await stack.users["other-member"].start(name, thread_id=theirs)
    page = await history.threads(member, page_size=2)
    assert [t.id for t in page.threads] == ours[:0:-1]
    found = await history.threads(member, page_size=200, page_token=page.next_page_token)
    assert [t.id for t in found.threads][:1] == ours[:1]
    assert theirs not in [t.id for t in found.threads]
    assert [t.id for t in (await history.threads(admin, page_size=4)).threads] == [
        theirs,
        *ours[::-1],
    ]
    thread = await history.thread(member, ours[0])
    assert (thread.agent, thread.created_by, thread.runs) == (name, member.user_id, 1)
    assert thread.live_run_id == runs[0].id
    await admin.decide_all(runs[0].id, "approve")
    await member.finished(runs[0].id)
    assert not (await history.thread(member, ours[0])).HasField("live_run_id")
    second = await admin.start(name, "more", thread_id=ours[0])
    third = await member.start(name, "still more", thread_id=ours[0])
    assert (await history.thread(member, ours[0])).runs == 3
    said = await history.thread_messages(admin, ours[0], page_size=5)
    rest = await history.thread_messages(
        admin, ours[0], page_size=5, page_token=said.next_page_token
    )
    conversation = [*said.messages, *rest.messages]
    in_order = [runs[0].id] * 4 + [second.id] * 2 + [third.id] * 2
    assert [m.run_id for m in conversation] == in_order
    assert [m.message.seq for m in conversation] == [1, 2, 3, 4, 1, 2, 1, 2]
    seen = (await history.thread_messages(member, ours[0], page_size=200)).messages
    assert [m.run_id for m in seen] == [r for r in in_order if r != second.id]


@pytest.mark.parametrize("who", ["other-member", "b-admin", "b-member"])
async def test_a_thread_is_not_told_to_strangers(
    stack: Stack, admin: Client, member: Client, who: str
) -> None:
    """404 for what is another's as for what is nobody's."""
    thread = ids.new_id()
    await member.start(await saved(admin), thread_id=thread)
    for name in (thread, ids.new_id(), "", "\0"):
        with pytest.raises(NotFound):
            await history.thread(stack.users[who], name)
        with pytest.raises(NotFound):
            await history.thread_messages(stack.users[who], name)
    assert thread not in [t.id for t in (await history.threads(stack.users[who])).threads]


async def test_cancel_and_decide_on_a_queued_run(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 28: decide on a queued run: 409 and an audit row. Cancel of a queued run: it never
    starts.
    """
    gate = ledger.hold("occupies")
    name = await saved(admin, turn(fire("c1", "occupies")), interrupt_on={}, lane="narrow")
    first = await member.start(name, wait=0)
    await gate.reached()
    run = await member.start(name, wait=0)
    assert run.state == types_pb2.RUN_STATE_QUEUED
    with pytest.raises(ApprovalsClosed) as refused:
        await admin.decide(run.id, APPROVE)
    assert refused.value.members["state"] == "queued"
    (audited,) = await admin.audit(run_id=run.id)
    assert (audited.outcome, audited.target_kind) == ("error", "run")
    assert (await member.cancel(run.id)).state == CANCELLED
    await gate.open()
    await member.finished(first.id)
    assert [e.type for e in await member.events(run.id)] == [
        "run.queued",
        "message.created",
        "run.finished",
    ]
    assert ledger.count("occupies") == 1
    gate.remove()


async def test_cancel_while_a_tool_runs(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """Cancel with a tool under way: the run is cancelled at once, the tool's result is kept for
    the call, no later call of the batch starts and no message is added.
    """
    gate = ledger.hold("under-way")
    name = await saved(
        admin, turn(fire("c1", "under-way"), call("c2", "count__look", item="not-started"))
    )
    run = await member.start(name)
    await admin.decide(run.id, APPROVE)
    await gate.reached()
    assert (await member.cancel(run.id)).state == CANCELLED
    await gate.open()
    await execution(admin, run.id, types_pb2.EXECUTION_STATE_SUCCEEDED)
    rows = await stack.sql(
        "runner",
        "SELECT exec_state FROM tool_calls WHERE run_id = $1 ORDER BY call_index",
        run.id,
    )
    assert [r["exec_state"] for r in rows] == ["succeeded", "skipped"]
    assert (ledger.count("under-way"), ledger.count("not-started")) == (1, 0)
    assert [m.role for m in await member.messages(run.id)] == ["user", "assistant"]
    assert [e.type for e in await member.events(run.id)][-1] == "run.finished"
    with pytest.raises(RunFinished):
        await member.cancel(run.id)


async def test_a_cancelled_run_cannot_be_decided(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Cancel of a paused run: A is told first, so a later decide is ApprovalsClosed; the call is
    skipped, and the story says withdrawn before finished.
    """
    name = await saved(admin, turn(fire("c1", "withdrawn")))
    run = await member.start(name)
    cancelled = await member.cancel(run.id)
    assert cancelled.state == CANCELLED
    assert cancelled.pending_approvals == 0
    with pytest.raises(ApprovalsClosed) as refused:
        await admin.decide(run.id, APPROVE)
    assert refused.value.members["state"] == "withdrawn"
    kinds = [e.type for e in await member.events(run.id)]
    assert kinds[-3:] == ["run.suspended", "approval.withdrawn", "run.finished"]
    (audited,) = await admin.audit(run_id=run.id, action="approval.withdraw")
    assert audited.actor_id == member.user_id
    await execution(admin, run.id, SKIPPED)
    assert ledger.count("withdrawn") == 0


async def test_a_decision_stands_when_its_run_is_cancelled(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Decide, then cancel before a worker comes: the decision is kept, the call is skipped and
    reported.
    """
    gate = ledger.hold("blocks")
    blocker = await saved(admin, turn(fire("c1", "blocks")), interrupt_on={}, lane="narrow")
    name = await saved(admin, turn(fire("c1", "stands")), lane="narrow")
    run = await member.start(name)
    first = await member.start(blocker, wait=0)
    await gate.reached()
    await admin.decide(run.id, APPROVE)
    await member.until(run.id, "run.resumed")
    assert (await member.cancel(run.id)).state == CANCELLED
    await gate.open()
    await member.finished(first.id)
    (approval,) = await admin.approval_list(run.id)
    assert approval.state == types_pb2.APPROVAL_STATE_DECIDED
    assert approval.decision == types_pb2.DECISION_KIND_APPROVE
    await execution(admin, run.id, SKIPPED)
    kinds = [e.type for e in await member.events(run.id)]
    assert kinds[-3:] == ["approval.decided", "run.resumed", "run.finished"]
    assert ledger.count("stands") == 0
    gate.remove()


async def test_a_decision_shows_while_no_worker_is_free(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: one open stream sees requested, then decided while no worker runs, then the rest."""
    gate = ledger.hold("all-slots")
    blocker = await saved(admin, turn(fire("c1", "all-slots")), interrupt_on={}, lane="narrow")
    name = await saved(admin, turn(fire("c1", "stream")), lane="narrow")
    run, first = await member.start(name), None
    seen = []
    async for event in member.watch(run.id):
        seen.append(event.type)
        if event.type == "run.suspended":
            first = await member.start(blocker, wait=0)
            await gate.reached()
            await admin.decide(run.id, APPROVE)
        if event.type == "run.resumed":
            assert first is not None
            assert ledger.count("stream") == 0
            await gate.open()
            await member.finished(first.id)
    assert seen[4:8] == ["approval.requested", "run.suspended", "approval.decided", "run.resumed"]
    assert seen[-1] == "run.finished"
    assert ledger.count("stream") == 1
    gate.remove()
