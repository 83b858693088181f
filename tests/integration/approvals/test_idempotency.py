"""A decide that is repeated under its key."""

import asyncio

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors

from tests.support.approvals import Approvals, Tenant, decision, pending


async def test_a_repeat_is_given_the_first_answer(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    first = await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    # The run goes on, and pauses again: the answer stays what it was.
    report = pb.ExecutionReport(
        event_id=first.resume_event_id,
        tenant_id=tenant.id,
        run_id=pause.run_id,
        approval_id=pause.approval_ids[0],
        state=types_pb2.EXECUTION_STATE_SUCCEEDED,
    )
    await service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=[report]))
    await service.open(tenant, [pending()], run_id=pause.run_id, gen=2)
    again = await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    assert again == first


async def test_another_body_under_the_same_key_is_refused(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    with pytest.raises(errors.IdempotencyMismatch):
        await service.decide(
            tenant["admin"], pause.run_id, [decision("c1", "reject")], idempotency_key="k"
        )
    # What an edge hashed decides, where it did.
    pause = await service.open(tenant, [pending()])
    for what in ("approve", "reject"):
        answer = await service.decide(
            tenant["admin"],
            pause.run_id,
            [decision("c1", what)],
            idempotency_key="k",
            request_digest=b"d" * 32,
        )
        assert answer.approvals[0].decision == types_pb2.DECISION_KIND_APPROVE


async def test_a_key_is_the_users_own_and_bound_to_the_run(
    service: Approvals, tenant: Tenant
) -> None:
    first = await service.open(tenant, [pending()])
    second = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], first.run_id, [decision()], idempotency_key="k")
    with pytest.raises(errors.ApprovalsClosed):
        await service.decide(tenant["owner"], first.run_id, [decision()], idempotency_key="k")
    answer = await service.decide(
        tenant["admin"], second.run_id, [decision("c1", "reject")], idempotency_key="k"
    )
    assert answer.suspension_id == second.id


async def test_refusals_are_not_kept(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    with pytest.raises(errors.ApprovalsIncomplete):
        await service.decide(tenant["admin"], pause.run_id, [], idempotency_key="k")
    answer = await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    assert answer.suspension_id == pause.id


async def test_a_key_is_forgotten_after_a_day(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    await service.execute(
        "UPDATE idempotency SET created_at = created_at - interval '25 hours' WHERE tenant_id = $1",
        tenant.id,
    )
    with pytest.raises(errors.ApprovalsClosed):
        await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
    later = await service.open(tenant, [pending()], run_id=pause.run_id, gen=2)
    answer = await service.decide(
        tenant["admin"], pause.run_id, [decision("c1", "reject")], idempotency_key="k"
    )
    assert answer.suspension_id == later.id


@pytest.mark.parametrize("key", ["x" * 256, "a\x00b"])
async def test_a_key_that_cannot_be_kept_is_refused(
    service: Approvals, tenant: Tenant, key: str
) -> None:
    pause = await service.open(tenant, [pending()])
    with pytest.raises(errors.InvalidRequest):
        await service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key=key)


async def test_requests_under_one_key_at_the_same_time_get_one_answer(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    answers = await asyncio.gather(
        *(
            service.decide(tenant["admin"], pause.run_id, [decision()], idempotency_key="k")
            for _ in range(8)
        )
    )
    assert all(a == answers[0] for a in answers)
    rows = await service.rows(
        "SELECT id FROM audit_events WHERE target_id = $1", pause.approval_ids[0]
    )
    assert len(rows) == 1
