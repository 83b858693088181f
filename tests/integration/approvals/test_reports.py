"""What the runner reports of decided calls (S6), and what is counted as a fault."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids

from tests.support.approvals import Approvals, Pause, Tenant, decision, pending

AT = Timestamp(seconds=1_700_000_000)


async def report(service: Approvals, pause: Pause, *states: str) -> None:
    """Report these states of the first call, one request each."""
    for name in states:
        await service.runner(
            "ReportExecutions",
            pb.ReportExecutionsRequest(
                reports=[
                    pb.ExecutionReport(
                        event_id=ids.derived_id(pause.id, name),
                        tenant_id=pause.request.tenant_id,
                        run_id=pause.run_id,
                        approval_id=pause.approval_ids[0],
                        state=types_pb2.ExecutionState.Value(f"EXECUTION_STATE_{name.upper()}"),
                        at=AT,
                    )
                ]
            ),
        )


async def executed(service: Approvals, pause: Pause) -> tuple[str, list[str]]:
    """The execution's state, and the outcomes of its audit rows."""
    [row] = await service.rows(
        "SELECT execution_state FROM pending_approvals WHERE id = $1", pause.approval_ids[0]
    )
    rows = await service.rows(
        "SELECT outcome FROM audit_events WHERE target_id = $1 AND action = 'approval.execute' "
        "ORDER BY seq",
        pause.approval_ids[0],
    )
    return row["execution_state"], [r["outcome"] for r in rows]


SEQUENCES: dict[str, tuple[list[str], str, list[str]]] = {
    "in order": (["started", "succeeded"], "succeeded", ["ok"]),
    "failing": (["started", "failed"], "failed", ["error"]),
    "repeated": (["started", "succeeded", "started", "succeeded"], "succeeded", ["ok"]),
    "out of order": (["succeeded", "started"], "succeeded", ["ok"]),
    "no way back": (["failed", "succeeded", "skipped"], "failed", ["error"]),
    "not skipped once started": (["started", "skipped"], "started", []),
    "skipped": (["skipped", "started", "succeeded"], "skipped", ["ok"]),
    "unknown": (["started", "unknown", "unknown"], "unknown", ["error"]),
    "unknown, then learnt": (["started", "unknown", "succeeded"], "succeeded", ["error", "ok"]),
}


@pytest.mark.parametrize("case", SEQUENCES)
async def test_reports_move_forward_only(service: Approvals, tenant: Tenant, case: str) -> None:
    states, end, outcomes = SEQUENCES[case]
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    await report(service, pause, *states)
    assert await executed(service, pause) == (end, outcomes)


async def test_a_report_is_shown_with_its_time(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])
    await report(service, pause, "started", "succeeded")
    request = pb.GetApprovalRequest(approval_id=pause.approval_ids[0])
    answer = await service.as_user(tenant["member"], "GetApproval", request)
    assert answer.approval.execution_state == types_pb2.EXECUTION_STATE_SUCCEEDED
    assert answer.approval.execution_at == AT
    assert [e.action for e in answer.lifecycle] == ["approval.decide", "approval.execute"]
    assert answer.lifecycle[1].at.ToDatetime(UTC) == datetime.fromtimestamp(AT.seconds, UTC)


async def test_what_was_never_decided_can_be_skipped(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await report(service, pause, "skipped")
    assert await executed(service, pause) == ("skipped", ["ok"])


async def test_one_request_over_tenants_with_unknown_approvals(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    pauses = [await service.open(t, [pending()]) for t in (tenant, other)]
    reports = [
        pb.ExecutionReport(
            event_id=ids.new_id(),
            tenant_id=pause.request.tenant_id,
            run_id=pause.run_id,
            approval_id=approval_id,
            state=state,
            at=AT,
        )
        for pause in pauses
        for approval_id in (pause.approval_ids[0], ids.new_id())
        for state in (types_pb2.EXECUTION_STATE_STARTED, types_pb2.EXECUTION_STATE_SUCCEEDED)
    ]
    await service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=reports))
    for pause in pauses:
        assert await executed(service, pause) == ("succeeded", ["ok"])


@pytest.mark.parametrize("fault", [{"state": 0}, {"approval_id": "x"}, {"event_id": ""}])
async def test_a_report_that_makes_no_sense_does_not_keep_others_from_being_taken(
    service: Approvals, tenant: Tenant, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    pause = await service.open(tenant, [pending()])
    right, wrong = pb.ExecutionReport(), pb.ExecutionReport()
    for made in (right, wrong):
        made.event_id = ids.new_id()
        made.approval_id = pause.approval_ids[0]
        made.state = types_pb2.EXECUTION_STATE_SKIPPED
        made.at.CopyFrom(AT)
    for name, value in fault.items():
        setattr(wrong, name, value)
    await service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=[wrong, right]))
    assert await executed(service, pause) == ("skipped", ["ok"])
    assert [r.levelname for r in caplog.records if "no sense" in r.message] == ["ERROR"]
    with pytest.raises(errors.InvalidRequest):
        await service.runner("ReportExecutions", pb.ReportExecutionsRequest(reports=[right] * 501))


async def test_faults_are_counted(service: Approvals) -> None:
    async def counts() -> Any:
        found = await service.sweep("CheckApprovals", pb.CheckApprovalsRequest())
        return (found.executed_undecided, found.decided_unaudited, found.decided_unexecuted)

    tenant = await service.tenant()
    before = await counts()
    undecided = await service.open(tenant, [pending()])
    await report(service, undecided, "started")
    refused = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], refused.run_id, [decision("c1", "reject")])
    await report(service, refused, "succeeded")
    idle = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], idle.run_id, [decision()])
    await service.execute(
        "UPDATE pending_approvals SET decided_at = decided_at - interval '11 min' WHERE id = $1",
        idle.approval_ids[0],
    )
    unaudited = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], unaudited.run_id, [decision()])
    await service.execute(
        "UPDATE pending_approvals SET id = gen_random_uuid() WHERE id = $1",
        unaudited.approval_ids[0],
    )
    after = await counts()
    assert [a - b for a, b in zip(after, before, strict=True)] == [2, 1, 1]
