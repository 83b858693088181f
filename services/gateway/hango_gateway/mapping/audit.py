"""The audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_gateway.mapping import values

if TYPE_CHECKING:
    from hango.approvals.v1 import approvals_pb2 as pb

    from hango_gateway.mapping.values import Json


def event(found: pb.AuditEvent) -> Json:
    """One row."""
    return {
        "id": found.id,
        "seq": found.seq,
        "at": values.time(found, "at"),
        "tenant_id": found.tenant_id,
        "actor_kind": found.actor_kind,
        "actor_id": found.actor_id or None,
        "action": found.action,
        "target_kind": found.target_kind,
        "target_id": found.target_id,
        "outcome": found.outcome,
        "detail": values.raw(found.detail_json or b"{}"),
        "trace_id": found.trace_id or None,
        "prev_hash": found.prev_hash,
        "hash": found.hash,
    }


def verified(found: pb.VerifyAuditResponse) -> Json:
    """What the check of the chain found."""
    return {
        "ok": found.ok,
        "checked": found.checked,
        "problems": [{"seq": p.seq, "problem": p.problem} for p in found.problems],
    }
