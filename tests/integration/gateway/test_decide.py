"""Deciding over REST: what reaches the approvals service, and what comes back."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.common.v1 import types_pb2
from hango_platform import errors

from tests.support.fake_owners import EXACT, RUN, UNKNOWN, USERS

if TYPE_CHECKING:
    from tests.support.fake_owners import Edge

PATH = f"/v1/runs/{RUN}/approvals"
ARGS = b'{ "n":9007199254740993 , "big":1e400, "d":1.10,"s":"\\u0000\\ud800" }'


def decide(*decisions: Any, **more: Any) -> bytes:
    return json.dumps({"decisions": decisions, **more}).encode()


async def test_approve(edge: Edge) -> None:
    body = decide({"tool_call_id": "c1", "decision": "approve"})
    answer = await edge.ask("POST", PATH, content=body, headers={"Idempotency-Key": "k-1"})
    assert answer.status_code == 200
    told = answer.json()
    assert told["run_id"] == RUN
    assert told["resume_event_id"] == UNKNOWN
    approval = told["approvals"][0]
    assert (approval["decision"], approval["state"]) == ("approve", "decided")
    assert approval["decided_by"] == USERS["admin"]
    assert approval["decided_at"] == "2025-06-15T15:06:41.000005Z"
    request = edge.owners.last(apb.DecideApprovalsRequest)
    assert request.run_id == RUN
    assert request.idempotency_key == "k-1"
    assert request.request_digest == hashlib.sha256(body).digest()
    assert [d.tool_call_id for d in request.decisions] == ["c1"]


async def test_edited_arguments_pass_byte_by_byte_both_ways(edge: Edge) -> None:
    body = (
        b'{"decisions":[{"approval_id":"","decision":"edit","args":' + ARGS + b',"message":null}]}'
    )
    answer = await edge.ask("POST", PATH, content=body)
    assert answer.status_code == 200
    decision = edge.owners.last(apb.DecideApprovalsRequest).decisions[0]
    assert decision.args_json == ARGS
    assert not decision.HasField("message")
    assert b'"decision_args":' + ARGS in answer.content
    assert b'"arguments":' + EXACT in answer.content


async def test_an_answer_passes_byte_by_byte(edge: Edge) -> None:
    body = (
        b'{"decisions":[{"tool_call_id":"c1","decision":"respond","value":[1.10, 1e400]},'
        b'{"tool_call_id":"c2","decision":"respond","value":null},'
        b'{"tool_call_id":"c3","decision":"respond","message":"42","value":null},'
        b'{"tool_call_id":"c4","decision":"approve","value":null,"args":null}]}'
    )
    assert (await edge.ask("POST", PATH, content=body)).status_code == 200
    one, two, three, four = edge.owners.last(apb.DecideApprovalsRequest).decisions
    assert one.value_json == b"[1.10, 1e400]"
    assert two.value_json == b"null"
    assert not three.HasField("value_json")
    assert not four.HasField("value_json")
    assert not four.HasField("args_json")


async def test_nobody_is_named_by_a_body(edge: Edge) -> None:
    """Case 25."""
    item = {"tool_call_id": "c1", "decision": "approve", "decided_by": USERS["owner"]}
    answer = await edge.ask("POST", PATH, content=decide(item, decided_by=USERS["owner"]))
    assert answer.json()["approvals"][0]["decided_by"] == USERS["admin"]


@pytest.mark.parametrize("word", [None, "", "Approve", "yes", 1, True, ["approve"], {}])
async def test_a_decision_that_is_none(edge: Edge, word: Any) -> None:
    """Case 9."""
    answer = await edge.ask("POST", PATH, content=decide({"tool_call_id": "c1", "decision": word}))
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/decisions/0/decision"]


async def test_a_decision_that_is_missing(edge: Edge) -> None:
    answer = await edge.ask("POST", PATH, content=decide({"tool_call_id": "c1"}))
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/decisions/0/decision"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b"", [""]),
        (b"{", [""]),
        (b"[]", [""]),
        (b"null", [""]),
        (b'{"decisions":[], "decisions":[]}', [""]),
        (b'{"decisions":[{"decision":"edit","args":{"a":1,"a":2}}]}', [""]),
        (b'{"decisions":[{"decision":"edit","args":{"a":NaN}}]}', [""]),
        (b'{"decisions":"\xff"}', [""]),
        (b'{"decisions":[' + b"[" * 100 + b"]" * 100 + b"]}", [""]),
        (b"{}", ["/decisions"]),
        (b'{"decisions":{}}', ["/decisions"]),
        (b'{"decisions":null}', ["/decisions"]),
        (decide("approve", None), ["/decisions/0", "/decisions/1"]),
        (decide({"decision": "reject", "message": 5}), ["/decisions/0/message"]),
        (decide({"decision": "reject", "message": ["no"]}), ["/decisions/0/message"]),
        (decide({"decision": "edit", "args": [1]}), ["/decisions/0/args"]),
        (decide({"decision": "edit", "args": "{}"}), ["/decisions/0/args"]),
        (decide({"decision": "approve", "tool_call_id": 1}), ["/decisions/0/tool_call_id"]),
        (decide({"decision": "approve", "approval_id": {}}), ["/decisions/0/approval_id"]),
        (decide({"decision": "approve", "tool_name": 1}), ["/decisions/0/tool_name"]),
        (
            decide({"decision": "approve", "arguments_sha256": 1}),
            ["/decisions/0/arguments_sha256"],
        ),
        (
            b'{"decisions":[{"decision":"reject","message":"\\ud800"}]}',
            ["/decisions/0/message"],
        ),
    ],
)
async def test_a_body_that_cannot_be_expressed(
    edge: Edge, body: bytes, pointers: list[str]
) -> None:
    answer = await edge.ask("POST", PATH, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert [e["pointer"] for e in answer.json()["errors"]] == pointers
    assert answer.json()["reason"] == "INVALID_REQUEST"
    # It is not the last word: the body is refused after the caller's right and the run.
    assert (await edge.ask("POST", PATH, "member", content=body)).status_code == 403
    unknown = f"/v1/runs/{UNKNOWN}/approvals"
    assert (await edge.ask("POST", unknown, content=body)).status_code == 404


async def test_what_can_be_expressed_goes_along_with_a_fault(edge: Edge) -> None:
    """So that the refusal is audited on the approval it was about."""
    await edge.ask(
        "POST", PATH, content=decide({"tool_call_id": "c1", "decision": "reject", "message": 5})
    )
    request = edge.owners.last(apb.DecideApprovalsRequest)
    assert request.decisions[0].tool_call_id == "c1"
    assert request.decisions[0].decision == types_pb2.DECISION_KIND_REJECT


async def test_a_body_that_is_too_long(edge: Edge) -> None:
    body = decide({"decision": "edit", "args": {"a": "x" * (2 * 1024 * 1024)}})
    answer = await edge.ask("POST", PATH, content=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == ""
    assert (await edge.ask("POST", PATH, "member", content=body)).status_code == 403


async def test_a_thousand_edits_are_read_in_linear_time(edge: Edge) -> None:
    body = decide(*({"tool_call_id": "c", "decision": "edit", "args": {"a": "x" * 500}},) * 1000)
    answer = await edge.ask("POST", PATH, content=body)
    assert answer.status_code == 200
    assert answer.elapsed.total_seconds() < 2


@pytest.mark.parametrize("run_id", ["nonsense", UNKNOWN, RUN, "%00", "%ED%A0%80", RUN.upper()])
async def test_a_member_gets_403_for_any_id(edge: Edge, run_id: str) -> None:
    answer = await edge.ask("POST", f"/v1/runs/{run_id}/approvals", "member", content=decide())
    assert answer.status_code == 403
    assert answer.json()["reason"] == "NOT_AN_APPROVER"
    assert answer.json()["type"] == "/problems/not-an-approver"


async def test_an_id_that_is_none(edge: Edge) -> None:
    answer = await edge.ask("POST", "/v1/runs/nonsense/approvals", content=decide())
    assert answer.status_code == 400


async def test_another_tenant_sees_nothing(edge: Edge) -> None:
    assert (await edge.ask("POST", PATH, "b-owner", content=decide())).status_code == 404


@pytest.mark.parametrize("key", ["", "a b", "k" * 256, "\u00e9"])
async def test_a_key_that_is_none(edge: Edge, key: str) -> None:
    body = decide({"tool_call_id": "c1", "decision": "approve"})
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = await edge.ask("POST", PATH, content=body, headers=headers)
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/idempotency_key"]


@pytest.mark.parametrize(
    ("error", "status", "members"),
    [
        (
            errors.ApprovalsIncomplete(remaining=[{"tool_call_id": "c2"}]),
            409,
            {"remaining": [{"tool_call_id": "c2"}]},
        ),
        (errors.ApprovalsClosed(state="expired"), 409, {"state": "expired"}),
        (errors.ArgumentsChanged(), 409, {}),
        (errors.DecisionNotAllowed(allowed=["approve"]), 400, {"allowed": ["approve"]}),
        (
            errors.EditInvalid(violations=[errors.Violation("/decisions/0/args/n", "too small")]),
            400,
            {"errors": [{"pointer": "/decisions/0/args/n", "message": "too small"}]},
        ),
        (errors.EditOutOfScope(), 400, {}),
        (errors.AnswerInvalid(), 400, {}),
        (errors.SecondPartyRequired(), 403, {}),
        (errors.IdempotencyMismatch(), 422, {}),
        (errors.IdempotencyInFlight(), 409, {}),
        (errors.Unavailable(), 503, {}),
        (errors.OutcomeUnknown(), 504, {}),
        (errors.Internal(), 500, {}),
    ],
    ids=lambda case: case.reason if isinstance(case, errors.HangoError) else "",
)
async def test_refusals_keep_their_members(
    edge: Edge, error: errors.HangoError, status: int, members: dict[str, Any]
) -> None:
    edge.owners.refuse["DecideApprovals"] = error
    answer = await edge.ask("POST", PATH, content=decide())
    assert answer.status_code == status
    problem = answer.json()
    assert problem["status"] == status
    assert problem["reason"] == error.reason
    assert problem["type"] == f"/problems/{error.slug()}"
    assert problem["title"] == error.title
    assert members.items() <= problem.items()
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    page = await edge.http.get(problem["type"])
    assert page.status_code == 200
    assert error.title in page.text
