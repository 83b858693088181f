"""The four decisions, and every answer that refuses one."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango_platform import ids
from hango_platform.errors import (
    ApprovalsClosed,
    ApprovalsIncomplete,
    ArgumentsChanged,
    DecisionNotAllowed,
    EditInvalid,
    EditOutOfScope,
    HangoError,
    InvalidRequest,
    NotAnApprover,
    NotFound,
)

from tests.support.scripts import FIRE, GATED, agent, assert_valid, call, fire, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.scripts import Recorder
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
PENDING = types_pb2.APPROVAL_STATE_PENDING
OVER_100 = {FIRE: {"when": {"arg": "amount", "gt": 100}}}


async def paused(
    admin: Client, member: Client, *calls: dict[str, Any], text: str = "go", **more: Any
) -> Any:
    """A run that waits for decisions on these calls."""
    spec = agent(turn(*calls), **{"interrupt_on": GATED, **more})
    await admin.save_agent(spec)
    run = await member.start(spec["name"], text)
    assert run.state == AWAITING
    return run


async def results(client: Client, run_id: str) -> dict[str, tuple[str, bool]]:
    """Text and error of each result of a run, by call id."""
    return {
        m.tool_call_id: (json.loads(m.content_json), m.is_error)
        for m in await client.messages(run_id)
        if m.role == "tool"
    }


async def still_pending(admin: Client, run_id: str) -> bool:
    """Whether nothing was decided, and a right request works."""
    found = await admin.approval_list(run_id)
    untouched = all(a.state == PENDING and not a.decision for a in found)
    await admin.decide_all(run_id, "reject")
    await admin.finished(run_id)
    return untouched


async def test_approve(admin: Client, member: Client, ledger: Ledger) -> None:
    """Item 10: an approved tool runs exactly once, its result is the tool's, the run ends."""
    run = await paused(admin, member, fire("c1", "approve", amount=7))
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
    run = await member.finished(run.id)
    assert (run.state, json.loads(run.output_json)) == (SUCCEEDED, "done")
    assert await results(member, run.id) == {"c1": ("fire approve 7", False)}
    assert ledger.count("approve") == 1


async def test_edit(admin: Client, member: Client, ledger: Ledger, recorder: Recorder) -> None:
    """Item 10: edit runs the changed arguments. Case 13: the model's next request holds its own
    call unchanged, the result, and a note of what a human changed.
    """
    text = f"edit {ids.new_id()}"
    run = await paused(admin, member, fire("c1", "edit-asked", amount=1), text=text)
    args = b'{"item": "edit-ran",  "amount": 9007199254740993}'
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "edit", "args": args})
    assert (await member.finished(run.id)).state == SUCCEEDED
    result, is_error = (await results(member, run.id))["c1"]
    assert not is_error
    note, _, own = result.rpartition("\n")
    assert own == "fire edit-ran 9007199254740993"
    assert "person changed the arguments" in note
    assert args.decode() in note
    assert (ledger.count("edit-asked"), ledger.count("edit-ran")) == (0, 1)
    (asked,) = [c for m in await member.messages(run.id) for c in m.tool_calls]
    assert json.loads(asked.arguments_raw) == {"item": "edit-asked", "amount": 1}
    _, second = recorder.about(text)
    assert_valid(second)
    assert json.loads(second[-2].tool_calls[0].arguments_raw)["item"] == "edit-asked"
    assert second[-1].content == result


@pytest.mark.parametrize("message", ["no", "ok", "", None])
async def test_reject(admin: Client, member: Client, ledger: Ledger, message: str | None) -> None:
    """Item 10 and case 14: reject with `no`, `ok` and empty is an error result, framed as a
    human's refusal with the text inside, and says not to retry.
    """
    item = f"reject-{message}"
    run = await paused(admin, member, fire("c1", item))
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "reject", "message": message})
    assert (await member.finished(run.id)).state == SUCCEEDED
    text, is_error = (await results(member, run.id))["c1"]
    assert is_error
    assert "person refused" in text
    assert "Do not ask for the same call again" in text
    assert len(text) > 80
    assert not message or f'"{message}"' in text
    assert ledger.count(item) == 0


async def test_respond(admin: Client, member: Client, ledger: Ledger) -> None:
    """Item 10: respond gives the text as a normal result, and the tool does not run."""
    run = await paused(admin, member, fire("c1", "respond"))
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "respond", "message": "42"})
    assert (await member.finished(run.id)).state == SUCCEEDED
    assert await results(member, run.id) == {"c1": ("42", False)}
    assert ledger.count("respond") == 0


async def test_an_unknown_approval_changes_nothing(admin: Client, member: Client) -> None:
    """Case 2: a decision that names an approval nobody knows is refused; a right one works."""
    run = await paused(admin, member, fire("c1", "unknown"))
    for named in ({"approval_id": ids.new_id()}, {"tool_call_id": "c9"}):
        with pytest.raises(InvalidRequest) as refused:
            await admin.decide(run.id, {**named, "decision": "approve"})
        assert type(refused.value) is InvalidRequest
    assert await still_pending(admin, run.id)


async def test_each_call_gets_its_own_decision(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 4: three gated calls, decided approve / reject / respond in shuffled order, results
    delayed at random, 100 times: each call gets its own decision.
    """
    dice = random.Random(4)
    at_once = asyncio.Semaphore(8)
    batch = [fire(f"c{i}", f"own-{i}", delay_ms=dice.randrange(4)) for i in range(3)]
    spec = agent(turn(*batch), interrupt_on=GATED)
    await admin.save_agent(spec)

    async def one(kinds: list[str], order: list[int]) -> None:
        async with at_once:
            run = await member.start(spec["name"])
            decisions = [
                {"tool_call_id": f"c{i}", "decision": kinds[i]}
                | ({} if kinds[i] == "approve" else {"message": f"said {i}"})
                for i in order
            ]
            await admin.decide(run.id, *decisions)
            await member.finished(run.id)
            found = await results(member, run.id)
            for i, kind in enumerate(kinds):
                text, is_error = found[f"c{i}"]
                assert is_error == (kind == "reject")
                want = {"approve": f"fire own-{i} 0", "respond": f"said {i}"}
                assert text == want.get(kind, text)
                assert kind != "reject" or f'"said {i}"' in text
            ran = [e for n in range(3) for e in ledger.entries(f"own-{n}")]
            mine = [e["item"] for e in ran if e["run_id"] == run.id]
            assert mine == [f"own-{kinds.index('approve')}"]

    kinds = ["approve", "reject", "respond"]
    plans = [(dice.sample(kinds, 3), dice.sample(range(3), 3)) for _ in range(100)]
    await asyncio.gather(*(one(k, o) for k, o in plans))


@pytest.mark.parametrize("edit", [False, True])
async def test_mixed_decisions_beside_a_free_call(
    admin: Client, member: Client, ledger: Ledger, recorder: Recorder, edit: bool
) -> None:
    """Case 7: approve + reject + free in a batch: the approved and the free one run, three
    results, the next model request is valid. Case 21: approve, edit and reject with repair on
    and a free sibling: repair never answers a decided call.
    """
    text = f"mixed {ids.new_id()}"
    items = [f"mix-{i}-{edit}" for i in range(4)]
    batch = [
        fire("c0", items[0]),
        fire("c1", items[1]),
        call("c2", "count__look", item=items[2]),
        fire("c3", items[3]),
    ]
    run = await paused(admin, member, *batch, text=text)
    third = (
        {"decision": "edit", "args": {"item": items[3], "amount": 5}}
        if edit
        else {"decision": "approve"}
    )
    await admin.decide(
        run.id,
        {"tool_call_id": "c3", **third},
        {"tool_call_id": "c1", "decision": "reject"},
        {"tool_call_id": "c0", "decision": "approve"},
    )
    assert (await member.finished(run.id)).state == SUCCEEDED
    assert [ledger.count(i) for i in items] == [1, 0, 1, 1]
    found = await results(member, run.id)
    assert list(found) == ["c0", "c1", "c2", "c3"]
    assert [e for _, e in found.values()] == [False, True, False, False]
    assert found["c3"][0].endswith(f"fire {items[3]} {5 if edit else 0}")
    _, second = recorder.about(text)
    assert_valid(second)
    assert [m.content for m in second[-4:]] == [t for t, _ in found.values()]


@pytest.mark.parametrize(
    ("wrong", "error", "more"),
    [
        ({"decision": None}, InvalidRequest, {}),
        ({"decision": "approve", "args": {"item": "x"}}, InvalidRequest, {}),
        ({"decision": "edit"}, InvalidRequest, {}),
        ({"decision": "respond"}, InvalidRequest, {}),
        ({"decision": "edit", "args": b"{"}, EditInvalid, {}),
        ({"decision": "edit", "args": {"item": 5}}, EditInvalid, {}),
        ({"decision": "edit", "args": {"amount": 500}}, EditInvalid, {}),
        ({"decision": "edit", "args": {"item": "x", "amount": 5}}, EditOutOfScope, OVER_100),
        ({"decision": "approve", "tool_name": "count__put"}, EditOutOfScope, {}),
        ({"decision": "approve", "arguments_sha256": "0" * 64}, ArgumentsChanged, {}),
        (
            {"decision": "respond", "message": "x"},
            DecisionNotAllowed,
            {FIRE: {"allowed_decisions": ["approve", "reject"]}},
        ),
    ],
)
async def test_a_bad_decision_then_a_good_one(
    admin: Client,
    member: Client,
    ledger: Ledger,
    wrong: dict[str, Any],
    error: type[HangoError],
    more: dict[str, Any],
) -> None:
    """Cases 8, 9, 11 and 12, item 10's edits: a decision that is null, ill-formed, breaks the
    schema, leaves the rule's `when` or names another tool is refused, nothing is saved, and the
    good one works.
    """
    item = f"bad-{ids.new_id()}"
    run = await paused(admin, member, fire("c1", item, amount=200), interrupt_on=more or GATED)
    with pytest.raises(error) as refused:
        await admin.decide(run.id, {"tool_call_id": "c1", **wrong})
    assert type(refused.value) is error
    assert item not in str(refused.value)
    (waiting,) = await admin.approval_list(run.id)
    assert (waiting.state, waiting.decision) == (PENDING, 0)
    assert ledger.count(item) == 0
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
    await member.finished(run.id)
    assert ledger.count(item) == 1


@pytest.mark.parametrize(
    ("args", "pointer"),
    [
        ({"path": 5, "content": "x"}, "/decisions/0/args/path"),
        ({"path": "/memories/x", "content": "x", "mode": "a"}, "/decisions/0/args"),
        ({"path": "/memories/x"}, "/decisions/0/args"),
    ],
)
async def test_an_edit_that_breaks_the_schema(
    admin: Client, member: Client, args: dict[str, Any], pointer: str
) -> None:
    """Case 11: an edit with a wrong type, a field the schema forbids, without a required one:
    400 with pointers into `args`, still pending.
    """
    asked = call("c1", "write_file", path="/memories/x", content="x")
    run = await paused(admin, member, asked, interrupt_on={})
    with pytest.raises(EditInvalid) as refused:
        await admin.decide(run.id, {"tool_call_id": "c1", "decision": "edit", "args": args})
    assert all(v.pointer.startswith(pointer) for v in refused.value.violations)
    assert refused.value.violations
    assert await still_pending(admin, run.id)


async def test_an_edit_cannot_leave_the_rules_folder(
    stack: Stack, admin: Client, member: Client
) -> None:
    """Case 12: an edit that leaves the rule's `when`: refused, still pending."""
    asked = call("c1", "write_file", path="/memories/x", content="x")
    run = await paused(admin, member, asked, interrupt_on={})
    args = {"path": "/memories/../x", "content": "x"}
    with pytest.raises(EditOutOfScope):
        await admin.decide(run.id, {"tool_call_id": "c1", "decision": "edit", "args": args})
    assert await still_pending(admin, run.id)
    assert not await stack.sql("runner", "SELECT 1 FROM files WHERE run_id = $1", run.id)


async def test_partial_decisions_store_nothing(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: partial → 409 with the rest."""
    run = await paused(admin, member, fire("c1", "part"), fire("c2", "part"))
    for given, rest in (([], ["c1", "c2"]), (["c2"], ["c1"])):
        with pytest.raises(ApprovalsIncomplete) as refused:
            await admin.decide(run.id, *({"tool_call_id": c, "decision": "approve"} for c in given))
        remaining = refused.value.members["remaining"]
        assert [r["tool_call_id"] for r in remaining] == rest
        assert all(r["approval_id"] and r["tool_name"] == FIRE for r in remaining)
    assert ledger.count("part") == 0
    assert await still_pending(admin, run.id)


async def test_a_member_may_look_but_not_decide(stack: Stack, admin: Client) -> None:
    """Item 10: a member (the creator too) is refused on decide, whatever the run, and may list
    his own.
    """
    creator, other = stack.users["member"], stack.users["other-member"]
    run = await paused(admin, creator, fire("c1", "member"))
    for who in (creator, other, stack.users["b-member"]):
        for run_id in (run.id, ids.new_id()):
            with pytest.raises(NotAnApprover):
                await who.decide(run_id, {"tool_call_id": "c1", "decision": "approve"})
    (seen,) = await creator.approval_list(run.id)
    assert (seen.state, json.loads(seen.arguments_json)["item"]) == (PENDING, "member")
    denied = [e for e in await admin.audit(run_id=run.id) if e.outcome == "denied"]
    assert {e.actor_id for e in denied} == {creator.user_id, other.user_id}
    assert await still_pending(admin, run.id)


async def test_the_decider_is_the_caller(stack: Stack, admin: Client, member: Client) -> None:
    """Case 25: nothing in a body can name the decider; the rows hold the caller's own id."""
    fields = {*apb.Decision.DESCRIPTOR.fields_by_name}
    fields |= {*apb.DecideApprovalsRequest.DESCRIPTOR.fields_by_name}
    assert not [f for f in fields if "by" in f.split("_") or "user" in f]
    run = await paused(admin, member, fire("c1", "decider"))
    owner = stack.users["owner"]
    await owner.decide_all(run.id, "approve")
    await member.finished(run.id)
    (decided,) = await admin.approval_list(run.id)
    assert decided.decided_by == owner.user_id
    (row,) = await stack.sql("runner", "SELECT decided_by FROM tool_calls WHERE run_id=$1", run.id)
    assert str(row["decided_by"]) == owner.user_id
    (audited,) = await admin.audit(run_id=run.id, action="approval.decide")
    assert audited.actor_id == json.loads(audited.detail_json)["decided_by"] == owner.user_id


async def test_deciding_on_a_run_that_does_not_wait(
    admin: Client, member: Client, stack: Stack, ledger: Ledger
) -> None:
    """Case 28: decide on a run that is running or finished, with or without an approval in its
    past: 409 each, and an audit row.
    """
    gate = ledger.hold("not-waiting")
    spec = agent(turn(fire("c1", "not-waiting")))
    await admin.save_agent(spec)
    run = await member.start(spec["name"], wait=0)
    await gate.reached()
    assert await _closed(admin, run.id) == "running"
    await gate.open()
    await member.finished(run.id)
    assert await _closed(admin, run.id) == "succeeded"
    decided = await paused(admin, member, fire("c1", "had-one"))
    await admin.decide_all(decided.id, "approve")
    await member.finished(decided.id)
    assert await _closed(admin, decided.id) == "decided"
    with pytest.raises(NotFound):
        await admin.decide(ids.new_id(), {"tool_call_id": "c1", "decision": "approve"})


async def _closed(admin: Client, run_id: str) -> str:
    """The state that a refused decide tells; its audit row is checked."""
    before = await admin.audit(run_id=run_id, action="approval.decide")
    with pytest.raises(ApprovalsClosed) as refused:
        await admin.decide(run_id, {"tool_call_id": "c1", "decision": "approve"})
    newest, *rest = await admin.audit(run_id=run_id, action="approval.decide")
    assert rest == before
    assert (newest.outcome, newest.actor_id) == ("error", admin.user_id)
    assert json.loads(newest.detail_json)["reason"] == "APPROVALS_CLOSED"
    found: str = refused.value.members["state"]
    return found


async def test_as_many_events_as_approvals(stack: Stack, admin: Client, member: Client) -> None:
    """Case 29: approval.requested events and rows are equal in number, with several calls."""
    batch = [fire("c1", "ev"), call("c2", "count__look", item="ev"), fire("c3", "ev")]
    run = await paused(admin, member, *batch, fire("c4", "ev"))
    events = [e for e in await member.events(run.id) if e.type == "approval.requested"]
    told = [json.loads(e.data_json) for e in events]
    rows = await admin.approval_list(run.id)
    assert [t["approval_id"] for t in told] == [a.id for a in rows]
    assert [t["tool_call_id"] for t in told] == ["c1", "c3", "c4"]
    assert [t["arguments"]["item"] for t in told] == ["ev"] * 3
    assert run.pending_approvals == 3
    await admin.decide_all(run.id, "reject")
    await member.finished(run.id)


async def test_the_story_of_an_approved_call(admin: Client, member: Client) -> None:
    """The order of events is the run's; numbers have no gap; the execution is reported to A and
    audited.
    """
    run = await paused(admin, member, fire("c1", "story"))
    await admin.decide_all(run.id, "approve")
    await member.finished(run.id)
    events = await member.events(run.id)
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert [e.type for e in events] == [
        "run.queued",
        "message.created",
        "run.started",
        "message.created",
        "approval.requested",
        "run.suspended",
        "approval.decided",
        "run.resumed",
        "tool.started",
        "tool.finished",
        "message.created",
        "message.created",
        "run.finished",
    ]

    async def reported() -> bool:
        (approval,) = await admin.approval_list(run.id)
        return bool(approval.execution_state == types_pb2.EXECUTION_STATE_SUCCEEDED)

    await eventually(reported, what="the execution is reported")
    executed = await admin.audit(run_id=run.id, action="approval.execute")
    assert [e.outcome for e in executed] == ["ok"]


@pytest.mark.parametrize("decision", ["reject", "respond"])
async def test_a_call_that_was_not_to_run_is_reported_skipped(
    admin: Client, member: Client, decision: str
) -> None:
    """S6: reject and respond report `skipped`."""
    run = await paused(admin, member, fire("c1", "skip"))
    await admin.decide_all(run.id, decision, message="x")
    await member.finished(run.id)

    async def reported() -> bool:
        (approval,) = await admin.approval_list(run.id)
        return bool(approval.execution_state == types_pb2.EXECUTION_STATE_SKIPPED)

    await eventually(reported, what="the skip is reported")


async def test_a_failing_tool_is_an_error_result(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """An approved call whose tool fails ran once; its error is the result and the run goes on."""
    run = await paused(
        admin, member, call("c1", "count__fail", item="failing"), interrupt_on={"*": True}
    )
    await admin.decide_all(run.id, "approve")
    assert (await member.finished(run.id)).state == SUCCEEDED
    text, is_error = (await results(member, run.id))["c1"]
    assert is_error
    assert "no luck with failing" in text
    assert ledger.count("failing") == 1


async def test_an_approval_can_be_read_alone(admin: Client, member: Client) -> None:
    """One approval with its rule, schema and lifecycle."""
    run = await paused(admin, member, fire("c1", "alone"))
    (listed,) = await admin.approval_list(run.id)
    stub = agrpc.ApprovalsServiceStub(admin.approvals)
    read = await admin.call(stub.GetApproval, apb.GetApprovalRequest(approval_id=listed.id))
    assert read.approval.id == listed.id
    assert json.loads(read.approval.parameters_json)["required"] == ["item"]
    assert await still_pending(admin, run.id)
