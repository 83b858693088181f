"""Proto to domain and back: pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from google.protobuf.json_format import MessageToJson
from hango.approvals.v1 import approvals_pb2
from hango.common.v1 import types_pb2
from hango.events.v1 import events_pb2
from hango.runs.v1 import runs_pb2 as pb
from hango_platform import clock
from hango_platform.telemetry import trace
from hango_policy import strict_json

from hango_runner.domain.run import RunEnd, RunState, RunView
from hango_runner.domain.story import json_object, rfc3339
from hango_runner.domain.verdict import CallVerdict, Verdict, VerdictState

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp
    from hango_platform.outbox.outbox import OutboxRow
    from hango_platform.postgres.transaction import Row

    from hango_runner.agent.state import Call, Suspension
    from hango_runner.agent.tools import ToolSpec
    from hango_runner.domain.agent import AgentVersion

VERDICT_STATES = {
    types_pb2.APPROVAL_STATE_PENDING: VerdictState.PENDING,
    types_pb2.APPROVAL_STATE_DECIDED: VerdictState.DECIDED,
    types_pb2.APPROVAL_STATE_EXPIRED: VerdictState.EXPIRED,
    types_pb2.APPROVAL_STATE_WITHDRAWN: VerdictState.WITHDRAWN,
}
_DECISIONS = {
    types_pb2.DECISION_KIND_APPROVE: "approve",
    types_pb2.DECISION_KIND_EDIT: "edit",
    types_pb2.DECISION_KIND_REJECT: "reject",
    types_pb2.DECISION_KIND_RESPOND: "respond",
}
_BY_WORD = {word: value for value, word in _DECISIONS.items()}
_RUN_STATES = {state: types_pb2.RunState.Value(f"RUN_STATE_{state.upper()}") for state in RunState}


def run_state(value: types_pb2.RunState.ValueType) -> RunState | None:
    """The state; None for unset."""
    return next((state for state, known in _RUN_STATES.items() if known == value), None)


def run_state_message(state: RunState) -> types_pb2.RunState.ValueType:
    """The state as it is sent."""
    return _RUN_STATES[state]


def run_message(run: RunView) -> pb.Run:
    """A run as it is sent."""
    message = pb.Run(
        id=run.id,
        agent=run.agent,
        agent_version=run.agent_version,
        thread_id=run.thread_id,
        state=_RUN_STATES[run.state],
        suspension_id=run.suspension_id,
        created_by=run.created_by,
        output_json=None if run.output is None else run.output.encode(),
        forked_from=run.forked_from,
        pending_approvals=run.pending_approvals,
        usage=pb.Usage(
            model_calls=run.model_calls,
            input_tokens=run.input_tokens,
            output_tokens=run.output_tokens,
        ),
        metadata_json=run.metadata.encode(),
        lane=run.lane,
    )
    if run.failure_reason is not None:
        message.failure.reason = run.failure_reason
        message.failure.message = run.failure_message or ""
    message.created_at.FromDatetime(run.created_at)
    _set(message.awaiting_since, run.awaiting_since)
    _set(message.started_at, run.started_at)
    _set(message.finished_at, run.finished_at)
    return message


def agent_message(agent: AgentVersion) -> pb.Agent:
    """An agent as it is sent."""
    message = pb.Agent(
        name=agent.name,
        version=agent.version,
        spec_json=agent.spec.encode(),
        interrupt_on_json=agent.interrupt_on.encode(),
        warnings=agent.warnings,
    )
    _set(message.created_at, agent.created_at)
    return message


def tool_message(tool: ToolSpec) -> pb.ToolInfo:
    """A tool as it is sent."""
    return pb.ToolInfo(
        name=tool.name,
        description=tool.description,
        parameters_json=strict_json.dumps(tool.parameters),
        effect=tool.effect.value,
        source=tool.source,
        unavailable=tool.unavailable,
    )


def transcript_message(row: Row) -> pb.Message:
    """A message as it is sent."""
    calls = json.loads(row["tool_calls"]) if row["tool_calls"] else []
    if not isinstance(calls, list):
        calls = []  # they were erased
    message = pb.Message(
        seq=row["seq"],
        role=row["role"],
        content_json=row["content"].encode(),
        tool_calls=[
            pb.ToolCall(
                id=c["id"],
                name=c["name"],
                arguments_raw=c["arguments_raw"].encode("utf-8", "surrogatepass"),
            )
            for c in calls
        ],
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        is_error=row["is_error"],
        subagent_call_id=row["subagent_call_id"],
    )
    message.created_at.FromDatetime(row["created_at"])
    return message


def event_message(run_id: str, row: Row) -> pb.RunEvent:
    """An event as it is sent: the stored data behind the run's id and the time."""
    head = json_object({"run_id": run_id, "at": rfc3339(row["at"])})
    data = head if row["data"] == "{}" else f"{head[:-1]},{row['data'][1:]}"
    message = pb.RunEvent(seq=row["seq"], type=row["type"], data_json=data.encode())
    message.at.FromDatetime(row["at"])
    return message


def open_request(suspension: Suspension) -> bytes:
    """What A is asked to open, as it lies in the outbox."""
    return approvals_pb2.OpenSuspensionRequest(
        suspension_id=suspension.id,
        tenant_id=suspension.tenant_id,
        run_id=suspension.run_id,
        gen=suspension.gen,
        turn=suspension.turn,
        requested_by=suspension.requested_by,
        agent=suspension.agent,
        agent_version=suspension.agent_version,
        batch_sha256=suspension.batch_sha256(),
        calls=[_pending_call(c) for c in suspension.calls],
    ).SerializeToString()


def opened_run(request: bytes) -> tuple[str, str]:
    """Tenant and run of a request that lies in the outbox."""
    parsed = approvals_pb2.OpenSuspensionRequest.FromString(request)
    return parsed.tenant_id, parsed.run_id


def withdraw_request(
    tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
) -> approvals_pb2.WithdrawSuspensionRequest:
    """What A is asked to take back."""
    return approvals_pb2.WithdrawSuspensionRequest(
        suspension_id=suspension_id,
        tenant_id=tenant_id,
        run_id=run_id,
        gen=gen,
        actor_id=actor_id,
    )


def opened(suspension_id: str, answer: approvals_pb2.OpenSuspensionResponse) -> Verdict:
    """What S1 has left behind."""
    return Verdict(
        suspension_id=suspension_id,
        state=VERDICT_STATES[answer.state],
        calls=[
            CallVerdict(a.approval_id, a.subagent_path, a.call_index, a.entry)
            for a in answer.approvals
        ],
        opened_at=_time(answer.opened_at) if answer.HasField("opened_at") else None,
        expires_at=_time(answer.expires_at) if answer.HasField("expires_at") else None,
    )


def verdict(found: approvals_pb2.Verdict) -> Verdict:
    """A suspension as A has it."""
    return Verdict(
        suspension_id=found.suspension_id,
        state=VERDICT_STATES[found.state],
        calls=[
            CallVerdict(
                approval_id=c.approval_id,
                subagent_path=c.subagent_path,
                call_index=c.call_index,
                entry=c.entry,
                decision=_DECISIONS.get(c.decision),
                raw=c.args_json if c.HasField("args_json") else None,
                message=c.message if c.HasField("message") else None,
                value=c.value_json if c.HasField("value_json") else None,
                decided_by=c.decided_by if c.HasField("decided_by") else None,
            )
            for c in found.calls
        ],
        opened_at=_time(found.opened_at) if found.HasField("opened_at") else None,
        expires_at=_time(found.expires_at) if found.HasField("expires_at") else None,
    )


def report(row: OutboxRow) -> approvals_pb2.ExecutionReport:
    """A row of the outbox about what became of a call."""
    told = json.loads(row.payload)
    message = approvals_pb2.ExecutionReport(
        event_id=row.id,
        tenant_id=row.tenant_id,
        run_id=told["run_id"],
        approval_id=row.key,
        state=types_pb2.ExecutionState.Value(f"EXECUTION_STATE_{told['state'].upper()}"),
        traceparent=row.traceparent,
    )
    message.at.FromDatetime(datetime.fromisoformat(told["at"]))
    return message


def audit_record(row: OutboxRow) -> approvals_pb2.AuditRecord:
    """A row of the outbox about an act of R."""
    told = json.loads(row.payload)
    message = approvals_pb2.AuditRecord(
        event_id=row.id,
        tenant_id=row.tenant_id,
        actor_id=told["actor_id"],
        action=told["action"],
        target_kind=told["target_kind"],
        target_id=told["target_id"],
        detail_json=json.dumps(told["detail"]).encode(),
        traceparent=row.traceparent,
    )
    message.at.FromDatetime(datetime.fromisoformat(told["at"]))
    return message


def finished_body(end: RunEnd) -> bytes:
    """The body of `run.finished` and `run.cancelled`."""
    body = events_pb2.RunFinishedEvent(
        tenant_id=end.tenant_id,
        run_id=end.run_id,
        agent=end.agent,
        state=_RUN_STATES[RunState(end.state)],
        failure_reason=end.reason or "",
        last_event_seq=end.last_event_seq,
        traceparent=trace.traceparent(),
    )
    body.at.FromDatetime(clock.now())
    return MessageToJson(body, preserving_proto_field_name=True, indent=None).encode()


def _pending_call(call: Call) -> approvals_pb2.PendingCall:
    return approvals_pb2.PendingCall(
        subagent_path=call.key.subagent_path,
        turn=call.key.turn,
        call_index=call.key.call_index,
        entry=call.entry,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        kind=types_pb2.ApprovalKind.Value(f"APPROVAL_KIND_{call.kind.upper()}"),
        arguments_json=call.arguments,
        allowed_decisions=[_BY_WORD[word] for word in call.allowed],
        rule_json=strict_json.dumps(call.rule),
        parameters_json=strict_json.dumps(call.parameters),
        input_json=None if call.input is None else strict_json.dumps(call.input),
        subagent_call_id=call.subagent_call_id,
    )


def _time(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(UTC)


def _set(field: Timestamp, value: datetime | None) -> None:
    if value is not None:
        field.FromDatetime(value)
