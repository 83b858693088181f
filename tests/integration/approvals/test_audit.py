"""The audit trail: who may read it, what it says, and what breaks it."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hango.approvals.v1 import approvals_pb2 as pb
from hango_platform import errors, ids

from tests.support.approvals import Approvals, Tenant, decision, pending


async def verify(service: Approvals, tenant: Tenant) -> pb.VerifyAuditResponse:
    answer: pb.VerifyAuditResponse = await service.as_user(
        tenant["admin"], "VerifyAudit", pb.VerifyAuditRequest()
    )
    return answer


async def listed(service: Approvals, tenant: Tenant, **more: Any) -> list[pb.AuditEvent]:
    """Rows over all pages."""
    found: list[pb.AuditEvent] = []
    token = ""
    while True:
        request = pb.ListAuditEventsRequest(page_token=token, **more)
        page = await service.as_user(tenant["admin"], "ListAuditEvents", request)
        found += page.events
        token = page.next_page_token
        if not token:
            return found


async def tampered(service: Approvals, *statements: str) -> None:
    """Change rows as somebody can who owns the database: past grants, policies and triggers."""
    connection = await asyncpg.connect(service.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            for statement in statements:
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_rows_are_listed_newest_first_and_filtered(
    service: Approvals, tenant: Tenant
) -> None:
    first = await service.open(tenant, [pending()])
    second = await service.open(tenant, [pending()])
    for pause in (first, second):
        await service.decide(tenant["admin"], pause.run_id, [decision()])
    with pytest.raises(errors.ApprovalsClosed):
        await service.decide(tenant["owner"], first.run_id, [])
    rows = await listed(service, tenant, page_size=3)
    assert [r.seq for r in rows] == list(range(len(rows), 0, -1))
    assert [r.target_kind for r in await listed(service, tenant, run_id=first.run_id)] == [
        "run",
        "pending_approval",
    ]
    [row] = await listed(service, tenant, target_id=second.approval_ids[0])
    assert (row.action, row.outcome, row.actor_kind) == ("approval.decide", "ok", "user")
    assert row.actor_id == tenant["admin"].user_id
    assert len(row.trace_id) == 32
    assert len(await listed(service, tenant, action="approval.decide")) == 3
    by_owner = await listed(service, tenant, actor_id=tenant["owner"].user_id)
    assert [r.outcome for r in by_owner] == ["error"]


@pytest.mark.parametrize(
    "bad",
    [
        {"page_size": 201},
        {"page_token": "x"},
        {"page_token": "WyJ4Il0"},
        {"run_id": "x"},
        {"actor_id": "x"},
        {"action": "no action"},
        {"target_id": "a\x00"},
    ],
)
async def test_bad_filters(service: Approvals, tenant: Tenant, bad: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidRequest):
        await service.as_user(tenant["admin"], "ListAuditEvents", pb.ListAuditEventsRequest(**bad))


async def test_the_trail_is_the_tenants_own(service: Approvals, tenant: Tenant) -> None:
    other = await service.tenant()
    pause = await service.open(other, [pending()])
    await service.decide(other["admin"], pause.run_id, [decision()])
    assert await listed(service, tenant, run_id=pause.run_id) == []
    assert {r.tenant_id for r in await listed(service, tenant)} == {tenant.id}


async def test_sixteen_writers_make_one_chain(service: Approvals, tenant: Tenant) -> None:
    async def write(writer: int) -> None:
        for _ in range(5):
            record = pb.AuditRecord(
                event_id=ids.new_id(),
                tenant_id=tenant.id,
                action="agent.save",
                target_kind="agent",
                target_id=f"agent-{writer}",
            )
            await service.runner("RecordAudit", pb.RecordAuditRequest(records=[record] * 2))

    await asyncio.gather(*map(write, range(16)))
    answer = await verify(service, tenant)
    assert (answer.ok, list(answer.problems)) == (True, [])
    assert answer.checked == 8 + 16 * 5  # four users with their keys were made before


async def test_rows_of_the_runner_are_taken_once(service: Approvals, tenant: Tenant) -> None:
    run_id = ids.new_id()
    at = Timestamp(seconds=1_700_000_000, nanos=5_000_000)
    record = pb.AuditRecord(
        event_id=ids.new_id(),
        tenant_id=tenant.id,
        at=at,
        actor_id=tenant["member"].user_id,
        action="run.cancel",
        target_kind="run",
        target_id=run_id,
        detail_json=b'{"was":"running"}',
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    for _ in range(2):
        await service.runner("RecordAudit", pb.RecordAuditRequest(records=[record]))
    [row] = await listed(service, tenant, run_id=run_id)
    assert (row.id, row.at, row.actor_id) == (record.event_id, at, record.actor_id)
    assert row.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert json.loads(row.detail_json) == {"was": "running"}
    faults: list[dict[str, Any]] = [
        {"tenant_id": "x"},
        {"tenant_id": ids.new_id()},
        {"action": "X"},
        {"detail_json": b"[]"},
        {"event_id": ""},
    ]
    batch = []
    for fault in faults:
        wrong = pb.AuditRecord()
        wrong.CopyFrom(record)
        wrong.event_id = ids.new_id()
        for name, value in fault.items():
            setattr(wrong, name, value)
        batch.append(wrong)
    batch.append(pb.AuditRecord())
    batch[-1].CopyFrom(record)
    batch[-1].event_id = ids.new_id()
    await service.runner("RecordAudit", pb.RecordAuditRequest(records=batch))
    assert {r.id for r in await listed(service, tenant, run_id=run_id)} == {
        record.event_id,
        batch[-1].event_id,
    }


DAMAGE = {
    "edited": ["UPDATE audit_events SET outcome = 'error' WHERE tenant_id = '{t}' AND seq = 3"],
    "edited with its hash": [
        "UPDATE audit_events SET detail = '{{}}', hash = encode(sha256('x'), 'hex') "
        "WHERE tenant_id = '{t}' AND seq = 3"
    ],
    "deleted": ["DELETE FROM audit_events WHERE tenant_id = '{t}' AND seq = 3"],
    "deleted at the end": ["DELETE FROM audit_events WHERE tenant_id = '{t}' AND seq = 8"],
    "deleted at the end with the head set back": [
        "DELETE FROM audit_events WHERE tenant_id = '{t}' AND seq > 6",
        "UPDATE audit_heads SET seq = 6 WHERE tenant_id = '{t}'",
    ],
    "all deleted": ["DELETE FROM audit_events WHERE tenant_id = '{t}'"],
    "swapped": [
        "UPDATE audit_events SET seq = 100 WHERE tenant_id = '{t}' AND seq = 3",
        "UPDATE audit_events SET seq = 3 WHERE tenant_id = '{t}' AND seq = 4",
        "UPDATE audit_events SET seq = 4 WHERE tenant_id = '{t}' AND seq = 100",
    ],
    "forged at the end": [
        "INSERT INTO audit_events SELECT tenant_id, 9, gen_random_uuid(), at, actor_kind, "
        "actor_id, action, target_kind, target_id, run_id, outcome, detail, trace_id, hash, hash "
        "FROM audit_events WHERE tenant_id = '{t}' AND seq = 8"
    ],
    "no hash": ["UPDATE audit_events SET prev_hash = 'x' WHERE tenant_id = '{t}' AND seq = 3"],
    "without its head": ["DELETE FROM audit_heads WHERE tenant_id = '{t}'"],
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_found(service: Approvals, damage: str) -> None:
    tenant = await service.tenant()
    assert (await verify(service, tenant)).ok
    await tampered(service, *(s.format(t=tenant.id) for s in DAMAGE[damage]))
    try:
        answer = await verify(service, tenant)
        assert not answer.ok
        assert answer.problems
        check = await service.sweep("CheckApprovals", pb.CheckApprovalsRequest())
        assert check.broken_chains == 1
    finally:
        await tampered(
            service,
            f"DELETE FROM audit_events WHERE tenant_id = '{tenant.id}'",
            f"DELETE FROM audit_heads WHERE tenant_id = '{tenant.id}'",
            f"INSERT INTO audit_heads VALUES ('{tenant.id}', 0, repeat('0', 64))",
        )


async def test_a_chain_of_many_pages(service: Approvals, tenant: Tenant) -> None:
    for _ in range(4):
        records = [
            pb.AuditRecord(
                event_id=ids.new_id(),
                tenant_id=tenant.id,
                action="agent.save",
                target_kind="agent",
                target_id="a",
            )
            for _ in range(248)
        ]
        await service.runner("RecordAudit", pb.RecordAuditRequest(records=records))
    answer = await verify(service, tenant)
    assert (answer.ok, answer.checked) == (True, 1000)
    await tampered(service, f"UPDATE audit_heads SET seq = 1001 WHERE tenant_id = '{tenant.id}'")
    assert not (await verify(service, tenant)).ok
    await tampered(service, f"UPDATE audit_heads SET seq = 1000 WHERE tenant_id = '{tenant.id}'")


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_events SET detail = ''", "DELETE FROM audit_events", "TRUNCATE audit_events"],
)
async def test_the_database_refuses_to_change_rows(service: Approvals, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(statement)
