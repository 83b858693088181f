"""Approvals, decisions, suspensions and verdicts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hango.approvals.v1 import approvals_pb2 as pb
from hango_platform import ids
from hango_platform.errors import InvalidRequest, Violation
from hango_policy import strict_json
from hango_policy.errors import JsonRefused

from hango_approvals.domain.attempt import Attempt
from hango_approvals.domain.deciding import Decision
from hango_approvals.domain.suspension import Approval, Call, Origin, Suspension
from hango_approvals.mapping.values import (
    decision_from_proto,
    decision_to_proto,
    execution_to_proto,
    kind_from_proto,
    kind_to_proto,
    refuse,
    required_id,
    state_to_proto,
    time_to_proto,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_approvals.domain.suspension import Decided
    from hango_approvals.domain.verdict import CallVerdict, Verdict


def approval(suspension: Suspension, found: Approval) -> pb.Approval:
    """One approval on the wire."""
    call, ruling, origin = found.call, found.ruling, suspension.origin
    return pb.Approval(
        id=found.id,
        run_id=origin.run_id,
        suspension_id=suspension.id,
        turn=call.turn,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        kind=kind_to_proto(call.kind),
        arguments_json=call.arguments,
        arguments_sha256=call.arguments_sha256,
        allowed_decisions=[decision_to_proto(d) for d in call.allowed],
        state=state_to_proto(found.state),
        decision=decision_to_proto(ruling.decision if ruling else None),
        decision_args_json=ruling.args if ruling else None,
        decision_message=ruling.message if ruling else None,
        decision_value_json=ruling.value if ruling else None,
        decided_by=found.decided_by,
        decided_at=time_to_proto(found.decided_at),
        created_at=time_to_proto(suspension.created_at),
        expires_at=time_to_proto(suspension.expires_at),
        subagent_call_id=call.subagent_call_id,
        subagent_path=call.subagent_path,
        call_index=call.call_index,
        entry=call.entry,
        input_json=call.input,
        rule_json=call.rule,
        parameters_json=call.parameters,
        agent=origin.agent,
        agent_version=origin.agent_version,
        requested_by=origin.requested_by,
        execution_state=execution_to_proto(found.execution),
        execution_at=time_to_proto(found.execution_at),
    )


def approvals(suspension: Suspension) -> list[pb.Approval]:
    """All approvals of a suspension on the wire, in call order."""
    return [approval(suspension, found) for found in suspension.approvals]


def attempt(request: pb.DecideApprovalsRequest) -> Attempt:
    """What somebody tries to decide."""
    digest = request.request_digest or _digest(request)
    return Attempt(
        run_id=request.run_id,
        decisions=tuple(_decision(d) for d in request.decisions),
        idempotency_key=request.idempotency_key,
        request_digest=digest,
        violations=tuple(Violation(v.pointer, v.message) for v in request.violations),
    )


def _digest(request: pb.DecideApprovalsRequest) -> bytes:
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()


def _decision(decision: pb.Decision) -> Decision:
    return Decision(
        approval_id=decision.approval_id,
        tool_call_id=decision.tool_call_id or None,
        kind=decision_from_proto(decision.decision),
        args=decision.args_json if decision.HasField("args_json") else None,
        message=decision.message if decision.HasField("message") else None,
        value=decision.value_json if decision.HasField("value_json") else None,
        tool_name=decision.tool_name if decision.HasField("tool_name") else None,
        arguments_sha256=(
            decision.arguments_sha256 if decision.HasField("arguments_sha256") else None
        ),
    )


def decided(answer: Decided) -> pb.DecideApprovalsResponse:
    """The answer to a decide on the wire."""
    return pb.DecideApprovalsResponse(
        run_id=answer.suspension.origin.run_id,
        suspension_id=answer.suspension.id,
        approvals=approvals(answer.suspension),
        resume_event_id=answer.resume_event_id,
    )


def origin(request: pb.OpenSuspensionRequest | pb.WithdrawSuspensionRequest) -> Origin:
    """The run that a suspension is of. Raises InvalidRequest for ids that do not fit together."""
    tenant_id = required_id(request.tenant_id, "/tenant_id")
    run_id = required_id(request.run_id, "/run_id")
    if request.gen < 1 or request.suspension_id != ids.suspension_id(run_id, request.gen):
        refuse("/suspension_id", "is not that of this run and generation")
    if isinstance(request, pb.WithdrawSuspensionRequest):
        return Origin(tenant_id, "", run_id, request.gen, "", "", 0)
    requested_by = required_id(request.requested_by, "/requested_by")
    return Origin(
        tenant_id, "", run_id, request.gen, requested_by, request.agent, request.agent_version
    )


def calls(request: pb.OpenSuspensionRequest) -> list[Call]:
    """The calls of a new suspension. Raises InvalidRequest."""
    if not request.calls:
        refuse("/calls", "has no call that needs a person")
    found: list[Call] = []
    violations: list[Violation] = []
    for position, call in enumerate(request.calls):
        try:
            found.append(_call(position, call))
        except InvalidRequest as error:
            violations += error.violations
    if violations:
        raise InvalidRequest(violations=violations)
    return found


def _call(position: int, call: pb.PendingCall) -> Call:
    at = f"/calls/{position}"
    kind = kind_from_proto(call.kind)
    if kind is None:
        refuse(f"{at}/kind", "must be tool_call or input")
    allowed = [decision_from_proto(d) for d in call.allowed_decisions]
    if not allowed or None in allowed:
        refuse(f"{at}/allowed_decisions", "must be a list of decisions")
    if "\x00" in call.tool_call_id + call.tool_name + call.subagent_path:
        refuse(at, "has a NUL character in a name")
    return Call(
        position=position,
        subagent_path=call.subagent_path,
        turn=call.turn,
        call_index=call.call_index,
        entry=call.entry,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        kind=kind,
        arguments=call.arguments_json,
        arguments_sha256=hashlib.sha256(call.arguments_json).hexdigest(),
        allowed=tuple(d for d in allowed if d is not None),
        rule=_json(call.rule_json, f"{at}/rule_json"),
        parameters=_json(call.parameters_json, f"{at}/parameters_json"),
        input=call.input_json if call.HasField("input_json") else None,
        subagent_call_id=call.subagent_call_id if call.HasField("subagent_call_id") else None,
    )


def _json(text: bytes, pointer: str) -> bytes:
    if not text:
        return b"null"
    try:
        strict_json.parse(text, max_bytes=len(text))
    except JsonRefused as error:
        refuse(pointer, error.reason)
    return text


def opened(found: Sequence[Approval]) -> list[pb.OpenedApproval]:
    """Which approval stands for which call."""
    return [
        pb.OpenedApproval(
            approval_id=a.id,
            subagent_path=a.call.subagent_path,
            call_index=a.call.call_index,
            entry=a.call.entry,
        )
        for a in found
    ]


def verdict(found: Verdict) -> pb.Verdict:
    """How a suspension stands, on the wire."""
    return pb.Verdict(
        suspension_id=found.suspension_id,
        state=state_to_proto(found.state),
        calls=[_call_verdict(c) for c in found.calls],
        opened_at=time_to_proto(found.opened_at),
        expires_at=time_to_proto(found.expires_at),
        closed_at=time_to_proto(found.closed_at),
    )


def _call_verdict(call: CallVerdict) -> pb.CallVerdict:
    return pb.CallVerdict(
        approval_id=call.approval_id,
        subagent_path=call.subagent_path,
        call_index=call.call_index,
        entry=call.entry,
        decision=decision_to_proto(call.decision),
        args_json=call.args,
        message=call.message,
        value_json=call.value,
        decided_by=call.decided_by,
    )
