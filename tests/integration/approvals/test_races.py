"""Two at one suspension at the same moment: exactly one outcome, whoever it is."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids
from hango_platform.errors import HangoError

from tests.support.approvals import Approvals, Pause, Tenant, decision, pending
from tests.support.waiting import eventually

WAITING = """SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@asynccontextmanager
async def held(service: Approvals, pause: Pause) -> AsyncIterator[Any]:
    """The suspension's row, locked by somebody else; released without a change."""
    connection = await asyncpg.connect(service.dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetchrow("SELECT id FROM suspensions WHERE id = $1 FOR UPDATE", pause.id)
    try:
        yield connection
    finally:
        await transaction.rollback()
        await connection.close()


async def until_waiting(connection: Any, number: int) -> None:
    """Until so many transactions wait for a lock."""

    async def check() -> bool:
        return bool(await connection.fetchval(WAITING) >= number)

    await eventually(check, what=f"{number} transactions that wait for a lock")


async def outcome(work: Any) -> str:
    """`ok`, or the reason of the refusal."""
    try:
        await work
    except HangoError as error:
        return error.reason
    return "ok"


async def test_of_two_full_decides_one_wins(service: Approvals, tenant: Tenant) -> None:
    async def pair() -> Counter[str]:
        pause = await service.open(tenant, [pending()])
        rivals = (
            service.decide(tenant["admin"], pause.run_id, [decision("c1", "approve")]),
            service.decide(tenant["owner"], pause.run_id, [decision("c1", "reject")]),
        )
        return Counter(await asyncio.gather(*map(outcome, rivals)))

    limit = asyncio.Semaphore(10)

    async def limited() -> Counter[str]:
        async with limit:
            return await pair()

    results = await asyncio.gather(*(limited() for _ in range(200)))
    assert results == [Counter({"ok": 1, "APPROVALS_CLOSED": 1})] * 200
    rows = await service.rows(
        "SELECT target_id, outcome FROM audit_events WHERE tenant_id = $1 "
        "AND action = 'approval.decide'",
        tenant.id,
    )
    assert Counter(r["outcome"] for r in rows) == {"ok": 200, "error": 200}
    check = await service.as_user(tenant["owner"], "VerifyAudit", pb.VerifyAuditRequest())
    assert check.ok


async def test_a_decide_that_waited_past_the_deadline_is_too_late(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await service.execute(
        "UPDATE suspensions SET expires_at = clock_timestamp() + interval '300 ms' WHERE id = $1",
        pause.id,
    )
    async with held(service, pause) as holder:
        decide = asyncio.ensure_future(
            outcome(service.decide(tenant["admin"], pause.run_id, [decision()]))
        )
        await until_waiting(holder, 1)

        async def passed() -> bool:
            late = "SELECT clock_timestamp() > expires_at FROM suspensions WHERE id = $1"
            return bool(await holder.fetchval(late, pause.id))

        await eventually(passed)
    assert await decide == "APPROVALS_CLOSED"
    rows = await service.rows("SELECT state FROM suspensions WHERE id = $1", pause.id)
    assert [r["state"] for r in rows] == ["expired"]


async def test_decide_against_expire(service: Approvals, tenant: Tenant) -> None:
    pauses = [await service.open(tenant, [pending()]) for _ in range(40)]
    await service.execute(
        "UPDATE suspensions SET expires_at = clock_timestamp() + random() * interval '100 ms' "
        "WHERE tenant_id = $1",
        tenant.id,
    )
    done = asyncio.Event()

    async def sweep() -> None:
        while not done.is_set():
            await service.sweep("ExpireSuspensions", pb.ExpireSuspensionsRequest(limit=10))

    sweeper = asyncio.ensure_future(sweep())
    answers = await asyncio.gather(
        *(outcome(service.decide(tenant["admin"], p.run_id, [decision()])) for p in pauses)
    )
    done.set()
    await sweeper
    rows = await service.rows("SELECT id, state FROM suspensions WHERE tenant_id = $1", tenant.id)
    states = {str(r["id"]): r["state"] for r in rows}
    for pause, answer in zip(pauses, answers, strict=True):
        assert states[pause.id] == ("decided" if answer == "ok" else "expired"), answer
    resumes = await service.rows(
        "SELECT payload FROM outbox WHERE tenant_id = $1 AND key LIKE '%run.resume%'", tenant.id
    )
    assert len(resumes) == len(pauses)


async def test_decide_against_withdraw(service: Approvals, tenant: Tenant) -> None:
    for _ in range(10):
        pause = await service.open(tenant, [pending()])
        withdraw = pb.WithdrawSuspensionRequest(
            suspension_id=pause.id, tenant_id=tenant.id, run_id=pause.run_id, gen=1
        )
        async with held(service, pause) as holder:
            decide = asyncio.ensure_future(
                outcome(service.decide(tenant["admin"], pause.run_id, [decision()]))
            )
            taken_back = asyncio.ensure_future(service.runner("WithdrawSuspension", withdraw))
            await until_waiting(holder, 2)
        state = (await taken_back).state
        if await decide == "ok":
            assert state == types_pb2.APPROVAL_STATE_DECIDED
        else:
            assert state == types_pb2.APPROVAL_STATE_WITHDRAWN
        rows = await service.rows("SELECT state FROM suspensions WHERE id = $1", pause.id)
        assert f"APPROVAL_STATE_{rows[0]['state'].upper()}" == types_pb2.ApprovalState.Name(state)


async def test_open_against_withdraw(service: Approvals, tenant: Tenant) -> None:
    for _ in range(20):
        run_id = ids.new_id()
        opening = asyncio.ensure_future(service.open(tenant, [pending()], run_id=run_id))
        request = pb.WithdrawSuspensionRequest(
            suspension_id=ids.suspension_id(run_id, 1), tenant_id=tenant.id, run_id=run_id, gen=1
        )
        answer = await service.runner("WithdrawSuspension", request)
        pause = await opening
        assert answer.state == types_pb2.APPROVAL_STATE_WITHDRAWN
        with pytest.raises(errors.ApprovalsClosed):
            await service.decide(tenant["admin"], run_id, [decision()])
        rows = await service.rows("SELECT state FROM suspensions WHERE id = $1", pause.id)
        assert [r["state"] for r in rows] == ["withdrawn"]


async def test_reports_and_decides_lock_approvals_in_one_order(
    service: Approvals, tenant: Tenant
) -> None:
    """Neither deadlocks, though both touch the same rows."""
    for _ in range(5):
        pause = await service.open(tenant, [pending(f"c{i}", index=i) for i in range(20)])
        reports = [
            pb.ExecutionReport(
                event_id=i,
                tenant_id=tenant.id,
                run_id=pause.run_id,
                approval_id=i,
                state=types_pb2.EXECUTION_STATE_SKIPPED,
            )
            for i in reversed(pause.approval_ids)
        ]
        decisions = [decision(f"c{i}", "reject") for i in reversed(range(20))]
        await asyncio.gather(
            service.decide(tenant["admin"], pause.run_id, decisions),
            service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=reports)),
            service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=reports[::-1])),
        )


async def test_callers_who_go_away_leave_no_connection_behind(
    service: Approvals, tenant: Tenant
) -> None:
    """All connections wait in decides that nobody wants any more; then they are all free."""
    pause = await service.open(tenant, [pending()])
    async with held(service, pause) as holder:
        decides = [
            asyncio.ensure_future(service.decide(tenant["admin"], pause.run_id, [decision()]))
            for _ in range(20)
        ]
        await until_waiting(holder, 15)
        for call in decides:
            call.cancel()
        await asyncio.gather(*decides, return_exceptions=True)

        async def gone() -> bool:
            return bool(await holder.fetchval(WAITING) == 0)

        await eventually(gone, what="the decides' ends")
    opened = await asyncio.gather(*(service.open(tenant, [pending()]) for _ in range(20)))
    assert len(opened) == 20
    answer = await service.decide(tenant["admin"], pause.run_id, [decision()])
    assert answer.suspension_id == pause.id
