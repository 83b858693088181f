"""The audit trail."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import orjson

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


def line(found: pb.AuditEvent) -> bytes:
    """One row as a line of an export: what its hash is over, as it is hashed (`detail` is text),
    and the two hashes.
    """
    at = found.at.ToDatetime(UTC).isoformat(timespec="microseconds")
    row = {
        "tenant_id": found.tenant_id,
        "seq": found.seq,
        "id": found.id,
        "at": at,
        "actor_kind": found.actor_kind,
        "actor_id": found.actor_id or None,
        "action": found.action,
        "target_kind": found.target_kind,
        "target_id": found.target_id,
        "run_id": values.optional(found, "run_id"),
        "outcome": found.outcome,
        "detail": found.detail_json.decode(),
        "trace_id": found.trace_id,
        "prev_hash": found.prev_hash,
        "hash": found.hash,
    }
    return orjson.dumps(row) + b"\n"


def checkpoint_line(found: pb.AuditCheckpoint) -> bytes:
    """The line that says where a pruned chain begins."""
    place = {
        "seq": found.seq,
        "hash": found.hash,
        "at": found.at.ToDatetime(UTC).isoformat(timespec="microseconds"),
        "signature": found.signature,
        "public_key": found.public_key,
    }
    return orjson.dumps({"checkpoint": place}) + b"\n"


def verified(found: pb.VerifyAuditResponse) -> Json:
    """What the check of the chain found."""
    return {
        "ok": found.ok,
        "checked": found.checked,
        "problems": [{"seq": p.seq, "problem": p.problem} for p in found.problems],
    }
