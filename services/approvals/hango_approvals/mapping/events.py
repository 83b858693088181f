"""Events as they are published: ids, states and times, never an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from google.protobuf import json_format
from hango.events.v1 import events_pb2
from hango_platform.bus import subjects
from hango_platform.outbox.outbox import OutboxRow
from hango_platform.outbox.publish import KIND
from hango_platform.telemetry import trace

from hango_approvals.domain.events import ApprovalChanged, Event, RunResume
from hango_approvals.mapping.values import decision_to_proto, state_to_proto, time_to_proto

if TYPE_CHECKING:
    from google.protobuf.message import Message


def outbox_row(event: Event) -> OutboxRow:
    """The row that publishes an event; its id is the event's, its key the subject."""
    origin = event.suspension.origin
    match event:
        case ApprovalChanged():
            name, body = event.kind.value, _approval_event(event)
        case RunResume():
            name, body = "run.resume", _run_resume(event)
        case _:
            assert_never(event)
    return OutboxRow(
        tenant_id=origin.tenant_id,
        kind=KIND,
        key=subjects.event(origin.tenant, name),
        payload=json_format.MessageToJson(
            body, preserving_proto_field_name=True, indent=None
        ).encode(),
        id=event.id,
    )


def _approval_event(event: ApprovalChanged) -> Message:
    origin, approval = event.suspension.origin, event.approval
    ruling = approval.ruling
    return events_pb2.ApprovalEvent(
        tenant_id=origin.tenant_id,
        run_id=origin.run_id,
        suspension_id=event.suspension.id,
        approval_id=approval.id,
        tool_call_id=approval.call.tool_call_id,
        tool_name=approval.call.tool_name,
        agent=origin.agent,
        requested_by=origin.requested_by,
        state=state_to_proto(approval.state),
        decision=decision_to_proto(ruling.decision if ruling else None),
        decided_by=approval.decided_by or "",
        at=time_to_proto(event.at),
        expires_at=time_to_proto(event.suspension.expires_at),
        traceparent=trace.traceparent(),
    )


def _run_resume(event: RunResume) -> Message:
    origin = event.suspension.origin
    return events_pb2.RunResumeEvent(
        tenant_id=origin.tenant_id,
        run_id=origin.run_id,
        suspension_id=event.suspension.id,
        at=time_to_proto(event.at),
        traceparent=trace.traceparent(),
    )
