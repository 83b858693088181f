"""Audit rows, and the runner's reports that become some."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2 as pb
from hango_platform.telemetry import trace
from hango_policy import strict_json
from hango_policy.errors import JsonRefused

from hango_approvals.domain.audit import AuditFilter, Entry
from hango_approvals.domain.suspension import Report
from hango_approvals.mapping.values import (
    execution_from_proto,
    optional_id,
    refuse,
    required_id,
    time_from_proto,
    time_to_proto,
)

if TYPE_CHECKING:
    from hango_approvals.domain.audit import Record, Verifier
    from hango_approvals.domain.signing import SignedPlace

_ACTION = re.compile(r"[a-z_]{1,64}(\.[a-z_]{1,64})+")
_MAX_TARGET = 256


def record(found: Record) -> pb.AuditEvent:
    """One row on the wire."""
    return pb.AuditEvent(
        id=found.id,
        seq=found.seq,
        at=time_to_proto(found.at),
        tenant_id=found.tenant_id,
        actor_kind=found.actor_kind,
        actor_id=found.actor_id or "",
        action=found.action,
        target_kind=found.target_kind,
        target_id=found.target_id,
        outcome=found.outcome,
        detail_json=found.detail.encode(),
        trace_id=found.trace_id,
        prev_hash=found.prev_hash,
        hash=found.hash,
        run_id=found.run_id,
    )


def checkpoint(found: SignedPlace) -> pb.AuditCheckpoint:
    """Where a pruned chain begins, on the wire."""
    return pb.AuditCheckpoint(
        seq=found.place.seq,
        hash=found.place.hash,
        at=time_to_proto(found.place.at),
        signature=found.signature,
        public_key=found.public_key,
    )


def verified(found: Verifier) -> pb.VerifyAuditResponse:
    """The outcome of a check on the wire."""
    return pb.VerifyAuditResponse(
        ok=not found.problems,
        checked=found.checked,
        problems=[pb.AuditProblem(seq=p.seq, problem=p.problem) for p in found.problems],
    )


def audit_filter(request: pb.ListAuditEventsRequest) -> AuditFilter:
    """Which rows are wanted. Raises InvalidRequest."""
    if request.action and not _ACTION.fullmatch(request.action):
        refuse("/action", "is not the name of an action")
    return AuditFilter(
        run_id=optional_id(request.run_id, "/run_id"),
        target_id=_target(request.target_id, "/target_id") or None,
        action=request.action or None,
        actor_id=optional_id(request.actor_id, "/actor_id"),
    )


def report(position: int, request: pb.ExecutionReport) -> Report:
    """A report of an execution. Raises InvalidRequest."""
    at = f"/reports/{position}"
    state = execution_from_proto(request.state)
    if state is None:
        refuse(f"{at}/state", "is missing or unknown")
    return Report(
        event_id=required_id(request.event_id, f"{at}/event_id"),
        approval_id=required_id(request.approval_id, f"{at}/approval_id"),
        state=state,
        at=time_from_proto(request.at),
        trace_id=trace.trace_id_of(request.traceparent),
    )


def entry(position: int, request: pb.AuditRecord) -> tuple[str, Entry]:
    """A row that the runner asks for, and its tenant. Raises InvalidRequest."""
    at = f"/records/{position}"
    if not _ACTION.fullmatch(request.action):
        refuse(f"{at}/action", "is not the name of an action")
    target = _target(request.target_id, f"{at}/target_id")
    return required_id(request.tenant_id, f"{at}/tenant_id"), Entry(
        id=required_id(request.event_id, f"{at}/event_id"),
        action=request.action,
        target_kind=_target(request.target_kind, f"{at}/target_kind"),
        target_id=target,
        actor_id=optional_id(request.actor_id, f"{at}/actor_id"),
        run_id=target if request.target_kind == "run" else None,
        detail=_detail(request.detail_json, f"{at}/detail_json"),
        at=time_from_proto(request.at),
        trace_id=trace.trace_id_of(request.traceparent),
    )


def _target(text: str, pointer: str) -> str:
    if len(text) > _MAX_TARGET or "\x00" in text:
        refuse(pointer, f"must be at most {_MAX_TARGET} characters, and none of them NUL")
    return text


def _detail(text: bytes, pointer: str) -> dict[str, Any]:
    try:
        found = strict_json.parse(text or b"{}")
    except JsonRefused as error:
        refuse(pointer, error.reason)
    if not isinstance(found, dict):
        refuse(pointer, "is not an object")
    return found
