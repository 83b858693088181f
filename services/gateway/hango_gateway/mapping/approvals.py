"""Approvals, and the events about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.common.v1 import types_pb2

from hango_gateway.mapping import audit, values

if TYPE_CHECKING:
    from hango.approvals.v1 import approvals_pb2 as pb

    from hango_gateway.mapping.values import Json


def approval(found: pb.Approval) -> Json:
    """One approval."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "suspension_id": found.suspension_id,
        "turn": found.turn,
        "call_index": found.call_index,
        "tool_call_id": found.tool_call_id,
        "tool_name": found.tool_name,
        "kind": values.word(types_pb2.ApprovalKind, found.kind),
        "arguments": values.raw_if_json(found.arguments_json),
        "arguments_raw": values.text(found.arguments_json),
        "arguments_sha256": found.arguments_sha256,
        "allowed_decisions": _allowed(found),
        "state": values.word(types_pb2.ApprovalState, found.state),
        "decision": values.word(types_pb2.DecisionKind, found.decision),
        "decision_args": values.raw(found.decision_args_json),
        "decision_message": values.optional(found, "decision_message"),
        "decision_value": values.raw(found.decision_value_json),
        "decided_by": values.optional(found, "decided_by"),
        "decided_at": values.time(found, "decided_at"),
        "created_at": values.time(found, "created_at"),
        "expires_at": values.time(found, "expires_at"),
        "subagent_call_id": values.optional(found, "subagent_call_id"),
        "subagent_path": found.subagent_path,
        "input": values.raw(found.input_json),
        "rule": values.raw(found.rule_json),
        "parameters": values.raw(found.parameters_json),
        "agent": found.agent,
        "agent_version": found.agent_version,
        "requested_by": found.requested_by,
        "execution": {
            "state": values.word(types_pb2.ExecutionState, found.execution_state) or "none",
            "at": values.time(found, "execution_at"),
        },
    }


def detail(found: pb.GetApprovalResponse) -> Json:
    """One approval with its batch and its lifecycle."""
    return {
        **approval(found.approval),
        "batch": [approval(a) for a in found.batch],
        "lifecycle": [audit.event(e) for e in found.lifecycle],
    }


def decided(answer: pb.DecideApprovalsResponse) -> Json:
    """The answer to a decide."""
    return {
        "run_id": answer.run_id,
        "suspension_id": answer.suspension_id,
        "approvals": [approval(a) for a in answer.approvals],
        "resume_event_id": answer.resume_event_id,
    }


def event(kind: str, at: str | None, found: pb.Approval) -> Json:
    """The data of an event about this approval."""
    decision = {
        "decision": values.word(types_pb2.DecisionKind, found.decision),
        "decided_by": values.optional(found, "decided_by"),
    }
    return {
        "run_id": found.run_id,
        "at": at,
        "approval_id": found.id,
        "suspension_id": found.suspension_id,
        "tool_call_id": found.tool_call_id,
        "tool_name": found.tool_name,
        "kind": values.word(types_pb2.ApprovalKind, found.kind),
        "arguments": values.raw_if_json(found.arguments_json),
        "allowed_decisions": _allowed(found),
        "expires_at": values.time(found, "expires_at"),
        "subagent_call_id": values.optional(found, "subagent_call_id"),
        **(decision if kind == "approval.decided" else {}),
    }


def _allowed(found: pb.Approval) -> list[str | None]:
    return [values.word(types_pb2.DecisionKind, d) for d in found.allowed_decisions]
