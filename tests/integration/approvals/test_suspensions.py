"""Opening, expiring, withdrawing, reading verdicts: protocol, S1, S3, S4."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids

from tests.support.approvals import Approvals, Pause, Tenant, decision, pending

DUE = "UPDATE suspensions SET expires_at = clock_timestamp() WHERE id = $1"
OLD = "UPDATE suspensions SET created_at = created_at - interval '61 seconds' WHERE id = $1"


async def state_of(service: Approvals, pause: Pause) -> tuple[str, set[str]]:
    """The state of a suspension, and those of its approvals."""
    [row] = await service.rows("SELECT state FROM suspensions WHERE id = $1", pause.id)
    rows = await service.rows(
        "SELECT state FROM pending_approvals WHERE suspension_id = $1", pause.id
    )
    return row["state"], {r["state"] for r in rows}


async def events_of(service: Approvals, pause: Pause) -> list[str]:
    """What was announced of a suspension, sorted: the order is not promised."""
    rows = await service.rows(
        "SELECT key, payload FROM outbox WHERE tenant_id = $1", pause.request.tenant_id
    )
    return sorted(
        ".".join(r["key"].split(".")[2:4]) for r in rows if pause.id.encode() in r["payload"]
    )


def withdrawal(
    pause_id: str, tenant: Tenant, run_id: str, actor: str = ""
) -> pb.WithdrawSuspensionRequest:
    return pb.WithdrawSuspensionRequest(
        suspension_id=pause_id, tenant_id=tenant.id, run_id=run_id, gen=1, actor_id=actor
    )


async def test_opening_twice_changes_nothing(service: Approvals, tenant: Tenant) -> None:
    calls = [pending("c1"), pending("c2", index=1, subagent_path="0.1", subagent_call_id="t")]
    pause = await service.open(tenant, calls)
    assert pause.answer.state == types_pb2.APPROVAL_STATE_PENDING
    assert [(a.subagent_path, a.call_index) for a in pause.answer.approvals] == [
        ("", 0),
        ("0.1", 1),
    ]
    ttl = pause.answer.expires_at.ToDatetime() - pause.answer.opened_at.ToDatetime()
    assert ttl == timedelta(hours=1)
    again = await service.runner("OpenSuspension", pause.request)
    assert again == pause.answer
    assert await events_of(service, pause) == ["approval.requested"] * 2


async def test_opening_at_the_same_time_opens_once(service: Approvals, tenant: Tenant) -> None:
    run_id = ids.new_id()
    opened = await asyncio.gather(
        *(service.open(tenant, [pending()], run_id=run_id) for _ in range(8))
    )
    assert all(p.answer == opened[0].answer for p in opened)
    assert await events_of(service, opened[0]) == ["approval.requested"]


async def test_a_repeat_after_the_decision_says_so(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    again = await service.runner("OpenSuspension", pause.request)
    assert again.state == types_pb2.APPROVAL_STATE_DECIDED
    assert again.approvals == pause.answer.approvals


async def test_the_same_id_with_other_calls_is_refused(
    service: Approvals, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    pause = await service.open(tenant, [pending()])
    with pytest.raises(errors.Conflict):
        await service.open(tenant, [pending("c2")], run_id=pause.run_id)
    assert [r.levelname for r in caplog.records if "other calls" in r.message] == ["ERROR"]
    [row] = await service.rows(
        "SELECT tool_call_id FROM pending_approvals WHERE suspension_id = $1", pause.id
    )
    assert row["tool_call_id"] == "c1"


async def test_what_cannot_be_a_suspension_is_refused(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    faults: list[dict[str, Any]] = [
        {"suspension_id": ids.new_id()},
        {"run_id": "x"},
        {"requested_by": ""},
        {"gen": 0},
        {"calls": []},
        {"calls": [pending(rule_json=b"{")]},
        {"calls": [pending(allowed=[])]},
        {"calls": [pending("a\x00")]},
    ]
    for fault in faults:
        request = pb.OpenSuspensionRequest()
        request.CopyFrom(pause.request)
        [name] = fault
        request.ClearField(name)  # type: ignore[arg-type]  # names from the table above
        request.MergeFrom(pb.OpenSuspensionRequest(**fault))
        with pytest.raises(errors.InvalidRequest):
            await service.runner("OpenSuspension", request)
    request = pb.OpenSuspensionRequest()
    request.CopyFrom(pause.request)
    request.tenant_id, request.run_id = ids.new_id(), ids.new_id()
    request.suspension_id = ids.suspension_id(request.run_id, 1)
    with pytest.raises(errors.NotFound):
        await service.runner("OpenSuspension", request)


async def test_arguments_are_kept_byte_by_byte(service: Approvals, tenant: Tenant) -> None:
    raw = b'{"a":9007199254740993,"b":1e400,"b":"\\ud800\\u0000", "c" :1.0}'
    pause = await service.open(tenant, [pending("c1", raw)])
    answer = await service.decide(tenant["admin"], pause.run_id, [decision()])
    assert answer.approvals[0].arguments_json == raw
    request = pb.GetVerdictsRequest(suspension_ids=[pause.id])
    [verdict] = (await service.runner("GetVerdicts", request)).verdicts
    assert verdict.calls[0].args_json == raw


async def test_verdicts_are_read_in_bulk_over_tenants_and_unknown_ones_left_out(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    mine, theirs = await service.open(tenant, [pending()]), await service.open(other, [pending()])
    await service.decide(other["admin"], theirs.run_id, [decision()])
    request = pb.GetVerdictsRequest(suspension_ids=[mine.id, ids.new_id(), theirs.id])
    found = {v.suspension_id: v for v in (await service.runner("GetVerdicts", request)).verdicts}
    assert {k: v.state for k, v in found.items()} == {
        mine.id: types_pb2.APPROVAL_STATE_PENDING,
        theirs.id: types_pb2.APPROVAL_STATE_DECIDED,
    }
    assert not found[mine.id].calls[0].HasField("args_json")
    assert found[mine.id].expires_at == mine.answer.expires_at
    too_many = pb.GetVerdictsRequest(suspension_ids=[ids.new_id() for _ in range(501)])
    with pytest.raises(errors.InvalidRequest):
        await service.runner("GetVerdicts", too_many)


async def test_what_nobody_decided_expires_and_wakes_its_run(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    due = [
        await service.open(tenant, [pending("c1"), pending("c2", index=1)]),
        await service.open(other, [pending()]),
    ]
    open_still = await service.open(tenant, [pending()])
    for pause in due:
        await service.execute(DUE, pause.id)
    answer = await service.sweep("ExpireSuspensions", pb.ExpireSuspensionsRequest(limit=100))
    assert answer.expired == 2
    assert await state_of(service, due[0]) == ("expired", {"expired"})
    assert await state_of(service, due[1]) == ("expired", {"expired"})
    assert await state_of(service, open_still) == ("pending", {"pending"})
    assert await events_of(service, due[0]) == [
        *["approval.expired"] * 2,
        *["approval.requested"] * 2,
        "run.resume",
    ]
    rows = await service.rows(
        "SELECT * FROM audit_events WHERE run_id = $1 ORDER BY seq", due[0].run_id
    )
    assert [(r["action"], r["actor_kind"], r["actor_id"], r["target_id"]) for r in rows] == [
        ("approval.expire", "system", None, i) for i in due[0].approval_ids
    ]
    with pytest.raises(errors.ApprovalsClosed) as caught:
        await service.decide(tenant["admin"], due[0].run_id, [decision("c1"), decision("c2")])
    assert caught.value.members == {"state": "expired"}
    again = await service.sweep("ExpireSuspensions", pb.ExpireSuspensionsRequest(limit=100))
    assert again.expired == 0


async def test_expiring_stops_at_its_limit(service: Approvals, tenant: Tenant) -> None:
    pauses = [await service.open(tenant, [pending()]) for _ in range(3)]
    for pause in pauses:
        await service.execute(DUE, pause.id)
    request = pb.ExpireSuspensionsRequest(limit=2)
    counts = [(await service.sweep("ExpireSuspensions", request)).expired for _ in range(3)]
    assert counts == [2, 1, 0]
    with pytest.raises(errors.InvalidRequest):
        await service.sweep("ExpireSuspensions", pb.ExpireSuspensionsRequest(limit=-1))


async def test_a_decide_after_the_deadline_expires_what_nobody_swept(
    service: Approvals, tenant: Tenant
) -> None:
    pause = await service.open(tenant, [pending()])
    await service.execute(DUE, pause.id)
    with pytest.raises(errors.ApprovalsClosed) as caught:
        await service.decide(tenant["admin"], pause.run_id, [decision()])
    assert caught.value.members == {"state": "expired"}
    assert await state_of(service, pause) == ("expired", {"expired"})
    assert await events_of(service, pause) == [
        "approval.expired",
        "approval.requested",
        "run.resume",
    ]
    rows = await service.rows(
        "SELECT action, outcome FROM audit_events WHERE run_id = $1 ORDER BY seq", pause.run_id
    )
    assert [tuple(r) for r in rows] == [("approval.expire", "ok"), ("approval.decide", "error")]


async def test_withdrawing(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    request = withdrawal(pause.id, tenant, pause.run_id, tenant["member"].user_id)
    for _ in range(2):
        answer = await service.runner("WithdrawSuspension", request)
        assert answer.state == types_pb2.APPROVAL_STATE_WITHDRAWN
    assert await state_of(service, pause) == ("withdrawn", {"withdrawn"})
    assert await events_of(service, pause) == ["approval.requested", "approval.withdrawn"]
    [row] = await service.rows("SELECT * FROM audit_events WHERE run_id = $1", pause.run_id)
    assert (row["action"], row["target_id"]) == ("approval.withdraw", pause.approval_ids[0])
    assert str(row["actor_id"]) == tenant["member"].user_id
    with pytest.raises(errors.ApprovalsClosed) as caught:
        await service.decide(tenant["admin"], pause.run_id, [decision()])
    assert caught.value.members == {"state": "withdrawn"}
    again = await service.runner("OpenSuspension", pause.request)
    assert again.state == types_pb2.APPROVAL_STATE_WITHDRAWN


async def test_withdrawing_what_was_decided_says_so(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    answer = await service.runner("WithdrawSuspension", withdrawal(pause.id, tenant, pause.run_id))
    assert answer.state == types_pb2.APPROVAL_STATE_DECIDED


async def test_a_tombstone_keeps_a_late_open_from_opening(
    service: Approvals, tenant: Tenant
) -> None:
    run_id = ids.new_id()
    pause_id = ids.suspension_id(run_id, 1)
    for _ in range(2):
        answer = await service.runner("WithdrawSuspension", withdrawal(pause_id, tenant, run_id))
        assert answer.state == types_pb2.APPROVAL_STATE_WITHDRAWN
    late = await service.open(tenant, [pending()], run_id=run_id)
    assert late.answer.state == types_pb2.APPROVAL_STATE_WITHDRAWN
    assert not late.answer.approvals
    assert not late.answer.HasField("opened_at")
    assert await events_of(service, late) == []
    request = pb.GetVerdictsRequest(suspension_ids=[pause_id])
    [verdict] = (await service.runner("GetVerdicts", request)).verdicts
    assert verdict.state == types_pb2.APPROVAL_STATE_WITHDRAWN
    assert not verdict.HasField("opened_at")
    rows = await service.rows("SELECT action FROM audit_events WHERE run_id = $1", run_id)
    assert [r["action"] for r in rows] == ["approval.withdraw"]
    with pytest.raises(errors.ApprovalsClosed) as caught:
        await service.decide(tenant["admin"], run_id, [decision()])
    assert caught.value.members == {"state": "withdrawn"}


async def test_reconciling_withdraws_what_has_no_run_any_more(
    service: Approvals, tenant: Tenant
) -> None:
    names = ("awaiting", "over", "unknown", "young")
    pauses = {n: await service.open(tenant, [pending()]) for n in names}
    for name in ("awaiting", "over", "young"):
        state = (
            types_pb2.RUN_STATE_AWAITING_APPROVAL
            if name == "awaiting"
            else types_pb2.RUN_STATE_CANCELLED
        )
        service.runs.add(pauses[name].run_id, tenant.id, tenant["member"].user_id, state)
        if name != "young":
            await service.execute(OLD, pauses[name].id)
    await service.execute(OLD, pauses["unknown"].id)
    answer = await service.sweep("ReconcileSuspensions", pb.ReconcileSuspensionsRequest(limit=9))
    assert answer.repaired == 2
    states = {n: (await state_of(service, p))[0] for n, p in pauses.items()}
    assert states == {
        "awaiting": "pending",
        "over": "withdrawn",
        "unknown": "withdrawn",
        "young": "pending",
    }


async def test_pruning_keeps_what_is_young(service: Approvals, tenant: Tenant) -> None:
    pauses = [await service.open(tenant, [pending()]) for _ in range(2)]
    for pause in pauses:
        await service.decide(
            tenant["admin"], pause.run_id, [decision()], idempotency_key=pause.run_id
        )
    await service.execute(
        "UPDATE outbox SET published_at = clock_timestamp() - interval '25 hours' "
        "WHERE tenant_id = $1 AND position($2 in payload) > 0",
        tenant.id,
        pauses[0].id.encode(),
    )
    await service.execute(
        "UPDATE idempotency SET created_at = created_at - interval '25 hours' WHERE key = $1",
        pauses[0].run_id,
    )
    answer = await service.sweep("PruneApprovals", pb.PruneApprovalsRequest(limit=100))
    assert answer.deleted == 4  # requested, decided, resume, and the answer
    assert await events_of(service, pauses[0]) == []
    assert len(await events_of(service, pauses[1])) == 3
    rows = await service.rows("SELECT key FROM idempotency WHERE tenant_id = $1", tenant.id)
    assert [r["key"] for r in rows] == [pauses[1].run_id]
