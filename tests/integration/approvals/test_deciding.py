"""Deciding, through gRPC, case by case: contract, section 5."""

import hashlib
import json

from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2

from tests.support.approvals import Approvals, Tenant, decision, pending

EDITED = b'{ "to": "bob",\t"amount": 9007199254740993 }'


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
    assert [types_pb2.DecisionKind.Name(a.decision) for a in answer.approvals] == [
        f"DECISION_KIND_{k}" for k in ("APPROVE", "EDIT", "REJECT", "RESPOND")
    ]
    assert {a.decided_by for a in answer.approvals} == {tenant["admin"].user_id}
    assert answer.approvals[1].decision_args_json == EDITED

    request = pb.GetVerdictsRequest(suspension_ids=[pause.id])
    [verdict] = (await service.runner("GetVerdicts", request)).verdicts
    assert verdict.state == types_pb2.APPROVAL_STATE_DECIDED
    assert [c.args_json for c in verdict.calls[:2]] == [b'{"to":"ann","amount":150}', EDITED]
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
    assert json.loads(rows[1]["detail"])["decision_args_sha256"] == (
        hashlib.sha256(EDITED).hexdigest()
    )
