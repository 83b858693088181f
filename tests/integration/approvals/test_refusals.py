"""Refused attempts leave one audit row each, and never a value."""

import json
from typing import Any

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids
from hango_platform.errors import HangoError

from tests.support.approvals import Approvals, Tenant, decision, pending

SECRET = "s3cret-value"


async def rows_of(service: Approvals, tenant: Tenant) -> list[Any]:
    return await service.rows(
        "SELECT * FROM audit_events WHERE tenant_id = $1 AND action LIKE 'approval.%' ORDER BY seq",
        tenant.id,
    )


async def attempt(
    service: Approvals, tenant: Tenant, run_id: str, *decisions: pb.Decision, by: str = "admin"
) -> None:
    with pytest.raises(HangoError):
        await service.decide(tenant[by], run_id, decisions)


async def test_each_refusal_is_one_row_on_the_approval_that_was_named(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending("c1"), pending("c2", index=1)])
    first = pause.approval_ids[0]
    edit = decision("c1", "edit", args_json=b'{"to":"%s"}' % SECRET.encode())
    await attempt(service, tenant, pause.run_id, decision("c1"))
    await attempt(service, tenant, pause.run_id, edit)
    await attempt(service, tenant, pause.run_id, decision("c1", message=SECRET), by="other")
    rows = await rows_of(service, tenant)
    assert [(r["target_kind"], r["target_id"]) for r in rows] == [("pending_approval", first)] * 3
    assert [r["outcome"] for r in rows] == ["error", "error", "denied"]
    assert [json.loads(r["detail"])["reason"] for r in rows] == [
        "APPROVALS_INCOMPLETE",
        "EDIT_INVALID",
        "NOT_AN_APPROVER",
    ]
    assert rows[2]["actor_id"] is not None
    assert str(rows[2]["actor_id"]) == tenant["other"].user_id
    assert not any(SECRET in str(dict(r)) for r in rows)


async def test_without_one_approval_the_row_is_on_the_run_as_it_was_named(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending("c1"), pending("c2", index=1)])
    nowhere = ids.new_id()
    await attempt(service, tenant, pause.run_id, by="admin")
    await attempt(service, tenant, pause.run_id, decision("c1"), decision("c9"))
    await attempt(service, tenant, pause.run_id, decision("c9"))
    await attempt(service, tenant, nowhere, decision("c1"), by="member")
    await attempt(service, tenant, "no\x00id", decision("c1"), by="member")
    rows = await rows_of(service, tenant)
    assert {r["target_kind"] for r in rows} == {"run"}
    assert [r["target_id"] for r in rows] == [pause.run_id] * 3 + [nowhere, "noid"]


async def test_an_approval_of_another_tenant_does_not_exist(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    pause = await service.open(other, [pending()])
    named = pb.Decision(approval_id=pause.approval_ids[0], decision=types_pb2.DECISION_KIND_APPROVE)
    await attempt(service, tenant, pause.run_id, named, by="member")
    [row] = await rows_of(service, tenant)
    assert (row["target_kind"], row["target_id"]) == ("run", pause.run_id)
    assert await rows_of(service, other) == []


async def test_what_was_not_found_or_not_read_leaves_no_row(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await attempt(service, tenant, ids.new_id(), decision())
    whole = types_pb2.FieldViolation(pointer="", message="is not JSON")
    with pytest.raises(errors.InvalidRequest):
        await service.decide(tenant["admin"], pause.run_id, [], violations=[whole])
    assert await rows_of(service, tenant) == []


async def test_decides_on_runs_that_wait_for_nobody_are_rows(
    service: Approvals, tenant: Tenant
) -> None:
    run_id = ids.new_id()
    service.runs.add(run_id, tenant.id, tenant["member"].user_id)
    await attempt(service, tenant, run_id, decision())
    [row] = await rows_of(service, tenant)
    assert (row["target_kind"], row["target_id"], row["outcome"]) == ("run", run_id, "error")
    assert json.loads(row["detail"]) == {
        "reason": "APPROVALS_CLOSED",
        "state": "running",
        "decision": "approve",
    }
