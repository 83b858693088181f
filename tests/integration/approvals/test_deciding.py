"""Deciding, through gRPC, case by case: contract, section 5."""

import hashlib
import json
from typing import Any

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids
from hango_platform.errors import HangoError

from tests.support.approvals import Approvals, Pause, Tenant, decision, kind, pending, question

ASKED = b'{"to":"ann","amount":150}'
EDITED = b'{ "to": "bob",\t"amount": 9007199254740993 }'


async def refused(
    service: Approvals, tenant: Tenant, run_id: str, *decisions: pb.Decision, by: str = "admin"
) -> HangoError:
    """The refusal of these decisions."""
    with pytest.raises(HangoError) as caught:
        await service.decide(tenant[by], run_id, decisions)
    return caught.value


async def still_decidable(service: Approvals, tenant: Tenant, pause: Pause) -> bool:
    """Whether a right request works now."""
    decisions = [
        pb.Decision(approval_id=i, decision=types_pb2.DECISION_KIND_REJECT)
        for i in pause.approval_ids
    ]
    answer = await service.decide(tenant["admin"], pause.run_id, decisions)
    return len(answer.approvals) == len(decisions)


def pointers(error: HangoError) -> list[str]:
    return [v.pointer for v in error.violations]


async def test_every_kind_of_decision_is_stored_and_told_to_the_runner(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending(f"c{i}", index=i) for i in range(4)])
    first, second, third, fourth = pause.approval_ids
    answer = await service.decide(
        tenant["admin"],
        pause.run_id,
        [
            decision("c3", "respond", message="42"),
            pb.Decision(approval_id=third, decision=types_pb2.DECISION_KIND_REJECT, message="no"),
            decision("c1", "edit", args_json=EDITED),
            decision("c0", "approve", approval_id=first),
        ],
    )
    assert [a.id for a in answer.approvals] == [first, second, third, fourth]
    assert [a.decision for a in answer.approvals] == [
        kind(k) for k in ("approve", "edit", "reject", "respond")
    ]
    assert {a.decided_by for a in answer.approvals} == {tenant["admin"].user_id}
    assert answer.approvals[1].decision_args_json == EDITED

    request = pb.GetVerdictsRequest(suspension_ids=[pause.id])
    [verdict] = (await service.runner("GetVerdicts", request)).verdicts
    assert verdict.state == types_pb2.APPROVAL_STATE_DECIDED
    assert [c.args_json for c in verdict.calls[:2]] == [ASKED, EDITED]
    assert not any(c.HasField("args_json") for c in verdict.calls[2:])
    assert [c.message for c in verdict.calls] == ["", "", "no", "42"]
    assert {c.decided_by for c in verdict.calls} == {tenant["admin"].user_id}

    rows = await service.rows(
        "SELECT * FROM audit_events WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq",
        tenant.id,
        pause.run_id,
    )
    assert [r["target_id"] for r in rows] == pause.approval_ids
    assert {(r["action"], r["outcome"]) for r in rows} == {("approval.decide", "ok")}
    detail = json.loads(rows[1]["detail"])
    assert detail["decision_args_sha256"] == hashlib.sha256(EDITED).hexdigest()
    assert (detail["decision"], detail["decided_by"]) == ("edit", tenant["admin"].user_id)


async def test_a_second_decide_is_closed_and_changes_nothing(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    error = await refused(service, tenant, pause.run_id, decision("c1", "reject"))
    assert isinstance(error, errors.ApprovalsClosed)
    assert error.members == {"state": "decided"}
    [row] = await service.rows(
        "SELECT decision FROM pending_approvals WHERE run_id = $1", pause.run_id
    )
    assert row["decision"] == "approve"


@pytest.mark.parametrize("known", [True, False])
async def test_a_member_is_refused_whether_the_run_exists_or_not(
    service: Approvals, tenant: Tenant, *, known: bool
) -> None:
    pause = await service.open(tenant, [pending()])
    run_id = pause.run_id if known else ids.new_id()
    error = await refused(service, tenant, run_id, decision(), by="member")
    assert isinstance(error, errors.NotAnApprover)
    assert await still_decidable(service, tenant, pause)


async def test_the_role_is_read_from_the_directory_and_not_from_the_token(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    user_id = tenant["admin"].user_id
    await service.execute("UPDATE users SET role = 'member' WHERE id = $1", user_id)
    error = await refused(service, tenant, pause.run_id, decision())
    assert isinstance(error, errors.NotAnApprover)
    await service.execute("UPDATE users SET role = 'admin', disabled = true WHERE id = $1", user_id)
    error = await refused(service, tenant, pause.run_id, decision())
    assert isinstance(error, errors.Unauthenticated)


async def test_a_tenant_can_demand_a_second_party(service: Approvals, tenant: Tenant) -> None:
    own = await service.open(tenant, [pending()], by="admin")
    running = ids.new_id()
    service.runs.add(running, tenant.id, tenant["admin"].user_id)
    await service.execute("UPDATE tenants SET require_second_party = true WHERE id = $1", tenant.id)
    for run_id in (own.run_id, running):
        error = await refused(service, tenant, run_id, decision())
        assert isinstance(error, errors.SecondPartyRequired)
    answer = await service.decide(tenant["owner"], own.run_id, [decision()])
    assert answer.suspension_id == own.id


async def test_a_run_of_nobody_and_a_run_of_another_tenant_are_not_found(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    pause = await service.open(other, [pending()])
    service.runs.add(pause.run_id, other.id, other["member"].user_id)
    for run_id in (ids.new_id(), pause.run_id):
        assert isinstance(await refused(service, tenant, run_id, decision()), errors.NotFound)
    assert await still_decidable(service, other, pause)


@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "failed", "cancelled"])
async def test_a_run_that_waits_for_nobody_is_closed_in_its_own_state(
    service: Approvals, tenant: Tenant, state: str
) -> None:
    run_id = ids.new_id()
    value = types_pb2.RunState.Value(f"RUN_STATE_{state.upper()}")
    service.runs.add(run_id, tenant.id, tenant["member"].user_id, value)
    error = await refused(service, tenant, run_id, decision())
    assert isinstance(error, errors.ApprovalsClosed)
    assert error.members == {"state": state}


async def test_an_approval_of_an_earlier_pause_is_closed(
    service: Approvals, tenant: Tenant
) -> None:
    first = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], first.run_id, [decision()])
    second = await service.open(tenant, [pending()], run_id=first.run_id, gen=2)
    stale = pb.Decision(approval_id=first.approval_ids[0], decision=types_pb2.DECISION_KIND_APPROVE)
    error = await refused(service, tenant, first.run_id, stale)
    assert isinstance(error, errors.ApprovalsClosed)
    assert error.members == {"state": "decided"}
    # The model used the same id for the call: the decision is about the pause that is open.
    answer = await service.decide(tenant["admin"], first.run_id, [decision("c1", "reject")])
    assert answer.suspension_id == second.id


async def test_a_call_of_an_earlier_pause_is_closed(service: Approvals, tenant: Tenant) -> None:
    """Found by chaos: of two who decide at once the later one may come when the next gate is
    there. He lost the race; he did not send nonsense.
    """
    first = await service.open(tenant, [pending("c1")])
    await service.decide(tenant["admin"], first.run_id, [decision("c1")])
    second = await service.open(tenant, [pending("c2")], run_id=first.run_id, gen=2)
    error = await refused(service, tenant, first.run_id, decision("c1"))
    assert isinstance(error, errors.ApprovalsClosed)
    assert error.members == {"state": "decided"}
    nonsense = await refused(service, tenant, first.run_id, decision("c3"))
    assert isinstance(nonsense, errors.InvalidRequest)
    answer = await service.decide(tenant["admin"], first.run_id, [decision("c2")])
    assert answer.suspension_id == second.id


@pytest.mark.parametrize("what", ["c1 only", "none"])
async def test_an_incomplete_set_says_what_remains(
    service: Approvals, tenant: Tenant, what: str
) -> None:
    pause = await service.open(tenant, [pending("c1"), pending("c2", index=1)])
    given = [decision("c1")] if what == "c1 only" else []
    error = await refused(service, tenant, pause.run_id, *given)
    assert isinstance(error, errors.ApprovalsIncomplete)
    remaining = list(zip(pause.approval_ids, ["c1", "c2"], strict=True))[len(given) :]
    assert error.members["remaining"] == [
        {"approval_id": i, "tool_call_id": c, "tool_name": "pay"} for i, c in remaining
    ]
    assert await still_decidable(service, tenant, pause)


WRONG_SHAPES: dict[str, tuple[pb.Decision, str]] = {
    "no decision": (pb.Decision(tool_call_id="c1"), "/decisions/0/decision"),
    "no call": (pb.Decision(decision=types_pb2.DECISION_KIND_APPROVE), "/decisions/0"),
    "unknown call": (decision("c9"), "/decisions/0/tool_call_id"),
    "unknown approval": (
        pb.Decision(approval_id=ids.new_id(), decision=types_pb2.DECISION_KIND_APPROVE),
        "/decisions/0/approval_id",
    ),
    "no uuid": (
        pb.Decision(approval_id="x\x00", decision=types_pb2.DECISION_KIND_APPROVE),
        "/decisions/0/approval_id",
    ),
    "edit without args": (decision("c1", "edit"), "/decisions/0/args"),
    "args elsewhere": (decision("c1", "approve", args_json=ASKED), "/decisions/0/args"),
    "value elsewhere": (decision("c1", "reject", value_json=b"1"), "/decisions/0/value"),
    "respond without text": (decision("c1", "respond"), "/decisions/0/message"),
    "respond with a value": (
        decision("c1", "respond", message="x", value_json=b"1"),
        "/decisions/0/value",
    ),
    "NUL": (decision("c1", "reject", message="a\x00b"), "/decisions/0/message"),
    "long message": (
        decision("c1", "reject", message="x" * (64 * 1024 + 1)),
        "/decisions/0/message",
    ),
}


@pytest.mark.parametrize("case", WRONG_SHAPES)
async def test_what_makes_no_sense_is_refused_with_a_pointer(
    service: Approvals, tenant: Tenant, case: str
) -> None:
    pause = await service.open(tenant, [pending()])
    wrong, pointer = WRONG_SHAPES[case]
    error = await refused(service, tenant, pause.run_id, wrong)
    assert type(error) is errors.InvalidRequest
    assert pointers(error) == [pointer]
    assert await still_decidable(service, tenant, pause)


async def test_a_call_can_be_decided_only_once_and_under_one_name(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending("c1"), pending("c2", index=1)])
    first, second = pause.approval_ids
    by_id = pb.Decision(approval_id=first, decision=types_pb2.DECISION_KIND_REJECT)
    error = await refused(service, tenant, pause.run_id, decision("c1"), by_id)
    assert (type(error), pointers(error)) == (errors.InvalidRequest, ["/decisions/1"])
    crossed = decision("c1", approval_id=second)
    error = await refused(service, tenant, pause.run_id, crossed, decision("c2"))
    assert (type(error), pointers(error)[0]) == (
        errors.InvalidRequest,
        "/decisions/0/approval_id",
    )
    assert await still_decidable(service, tenant, pause)


async def test_equal_call_ids_are_told_apart_by_approval_id(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending("c1"), pending("c1", index=1)])
    error = await refused(service, tenant, pause.run_id, decision("c1"))
    assert pointers(error) == ["/decisions/0/tool_call_id"]
    first, second = pause.approval_ids
    answer = await service.decide(
        tenant["admin"],
        pause.run_id,
        [decision("c1", "reject", approval_id=second), decision("c1", approval_id=first)],
    )
    assert [a.decision for a in answer.approvals] == [kind("approve"), kind("reject")]


async def test_arguments_that_were_not_shown_cannot_be_decided(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    other = hashlib.sha256(b"{}").hexdigest()
    error = await refused(service, tenant, pause.run_id, decision(arguments_sha256=other))
    assert isinstance(error, errors.ArgumentsChanged)
    shown = hashlib.sha256(ASKED).hexdigest()
    answer = await service.decide(tenant["admin"], pause.run_id, [decision(arguments_sha256=shown)])
    assert answer.suspension_id == pause.id


async def test_only_allowed_decisions(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending(allowed=["approve", "reject"])])
    error = await refused(service, tenant, pause.run_id, decision("c1", "edit", args_json=b"[]"))
    assert isinstance(error, errors.DecisionNotAllowed)
    assert error.members == {"allowed": ["approve", "reject"]}
    assert await still_decidable(service, tenant, pause)


BAD_EDITS: dict[str, tuple[bytes, list[str]]] = {
    "without a required field": (b'{"to":"x"}', ["/decisions/0/args/amount"]),
    "with a forbidden field": (
        b'{"to":"x","amount":150,"bcc":"y"}',
        ["/decisions/0/args/bcc"],
    ),
    "of a wrong type": (b'{"to":7,"amount":150}', ["/decisions/0/args/to"]),
    "not an object": (b"[1]", ["/decisions/0/args"]),
    "not JSON": (b"{", ["/decisions/0/args"]),
    "a duplicate key": (b'{"to":"x","amount":1,"amount":150}', ["/decisions/0/args"]),
    "NaN": (b'{"to":"x","amount":NaN}', ["/decisions/0/args"]),
    "a lone surrogate": (b'{"to":"\\ud800","amount":150}', ["/decisions/0/args"]),
    "too large": (
        b'{"to":"' + b"x" * (256 * 1024) + b'","amount":150}',
        ["/decisions/0/args"],
    ),
}


@pytest.mark.parametrize("case", BAD_EDITS)
async def test_an_edit_must_fit_the_tool(service: Approvals, tenant: Tenant, case: str) -> None:
    pause = await service.open(tenant, [pending()])
    args, where = BAD_EDITS[case]
    error = await refused(service, tenant, pause.run_id, decision("c1", "edit", args_json=args))
    assert isinstance(error, errors.EditInvalid)
    assert pointers(error) == where
    assert await still_decidable(service, tenant, pause)


async def test_an_edit_must_stay_within_the_rule_and_the_tool(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    outside = decision("c1", "edit", args_json=b'{"to":"x","amount":100}')
    error = await refused(service, tenant, pause.run_id, outside)
    assert isinstance(error, errors.EditOutOfScope)
    assert pointers(error) == ["/decisions/0/args"]
    for what, more in (("edit", {"args_json": EDITED}), ("approve", {})):
        other = decision("c1", what, tool_name="wire", **more)
        error = await refused(service, tenant, pause.run_id, other)
        assert isinstance(error, errors.EditOutOfScope)
    assert await still_decidable(service, tenant, pause)


async def test_answers_to_questions(service: Approvals, tenant: Tenant) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    pause = await service.open(tenant, [question(schema=schema)])
    wrong: list[tuple[dict[str, Any], type[HangoError], str]] = [
        ({"value_json": b'{"n":"x"}'}, errors.AnswerInvalid, "/decisions/0/value/n"),
        ({"value_json": b"{"}, errors.AnswerInvalid, "/decisions/0/value"),
        ({"message": "text"}, errors.AnswerInvalid, "/decisions/0/message"),
        ({}, errors.InvalidRequest, "/decisions/0"),
        ({"message": "x", "value_json": b"1"}, errors.InvalidRequest, "/decisions/0"),
    ]
    for more, expected, pointer in wrong:
        answer = decision("q1", "respond", **more)
        error = await refused(service, tenant, pause.run_id, answer)
        assert (type(error), pointers(error)) == (expected, [pointer])
    error = await refused(service, tenant, pause.run_id, decision("q1", "approve"))
    assert isinstance(error, errors.DecisionNotAllowed)
    right = decision("q1", "respond", value_json=b'{"n": 9007199254740993}')
    done = await service.decide(tenant["admin"], pause.run_id, [right])
    assert done.approvals[0].decision_value_json == b'{"n": 9007199254740993}'


@pytest.mark.parametrize("answer", [{"message": ""}, {"message": "yes"}, {"value_json": b"null"}])
async def test_a_question_without_a_schema_takes_any_answer(
    service: Approvals, tenant: Tenant, answer: dict[str, Any]
) -> None:
    pause = await service.open(tenant, [question()])
    done = await service.decide(
        tenant["admin"], pause.run_id, [decision("q1", "respond", **answer)]
    )
    request = pb.GetVerdictsRequest(suspension_ids=[pause.id])
    [verdict] = (await service.runner("GetVerdicts", request)).verdicts
    for found in (verdict.calls[0].message, done.approvals[0].decision_message):
        assert found == answer.get("message", "")
    assert verdict.calls[0].HasField("value_json") == ("value_json" in answer)


async def test_what_an_edge_found_is_refused_after_right_and_run(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    fault = types_pb2.FieldViolation(pointer="/decisions/0/message", message="is not text")
    for by, run_id, expected in (
        ("member", pause.run_id, errors.NotAnApprover),
        ("admin", ids.new_id(), errors.NotFound),
        ("admin", pause.run_id, errors.InvalidRequest),
    ):
        with pytest.raises(expected):
            await service.decide(tenant[by], run_id, [], violations=[fault])
    assert await still_decidable(service, tenant, pause)


async def test_shape_is_checked_before_closed_and_closed_before_names(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    malformed = pb.Decision(tool_call_id="c1")
    assert isinstance(
        await refused(service, tenant, pause.run_id, malformed), errors.InvalidRequest
    )
    assert isinstance(
        await refused(service, tenant, pause.run_id, decision("c9")), errors.ApprovalsClosed
    )


async def test_an_id_that_is_none_is_an_invalid_request(service: Approvals, tenant: Tenant) -> None:
    error = await refused(service, tenant, "no-id\x00", decision())
    assert type(error) is errors.InvalidRequest
    assert isinstance(
        await refused(service, tenant, "no-id", decision(), by="member"), errors.NotAnApprover
    )
