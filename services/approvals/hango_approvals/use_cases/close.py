"""Ways a suspension ends without a decision (S3, S4), within a transaction that holds its lock."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hango_approvals.domain.audit import Entry, Target
from hango_approvals.domain.events import ApprovalChanged, EventKind, RunResume
from hango_approvals.domain.suspension import State

if TYPE_CHECKING:
    from hango_platform.telemetry.metrics import Metrics

    from hango_approvals.domain.suspension import Suspension
    from hango_approvals.postgres.store import Work

log = logging.getLogger(__name__)


async def expire(work: Work, suspension: Suspension) -> Suspension:
    """Expire a locked, pending suspension that is past its deadline (S3)."""
    expired = await work.suspensions.close(suspension, State.EXPIRED, by=None)
    if expired is None or expired.closed_at is None:  # pragma: no cover - the caller holds the lock
        msg = "a locked suspension was closed by somebody else"
        raise RuntimeError(msg)
    await work.audit.append(expired.origin.tenant_id, _entries("approval.expire", expired, None))
    await work.announce(
        [
            *ApprovalChanged.of(EventKind.EXPIRED, expired, expired.closed_at),
            RunResume(expired, expired.closed_at),
        ]
    )
    return expired


def count_expired(metrics: Metrics, suspension: Suspension) -> None:
    """Count and log the approvals of a suspension that was expired, once it is committed."""
    for a in suspension.approvals:
        metrics.approvals_expired.labels(a.call.tool_name).inc()
        log.info(
            "approval expired",
            extra={
                "run_id": suspension.origin.run_id,
                "approval_id": a.id,
                "tool": a.call.tool_name,
                "tool_call_id": a.call.tool_call_id,
            },
        )


async def withdraw(work: Work, suspension: Suspension, *, by: str | None) -> Suspension | None:
    """Withdraw a locked suspension (S4); None where it is not pending any more."""
    withdrawn = await work.suspensions.close(suspension, State.WITHDRAWN, by=by)
    if withdrawn is None or withdrawn.closed_at is None:
        return None
    await work.audit.append(
        withdrawn.origin.tenant_id, _entries("approval.withdraw", withdrawn, by)
    )
    await work.announce(ApprovalChanged.of(EventKind.WITHDRAWN, withdrawn, withdrawn.closed_at))
    return withdrawn


def _entries(action: str, suspension: Suspension, by: str | None) -> list[Entry]:
    return [
        Entry(
            action=action,
            target_kind=Target.APPROVAL,
            target_id=a.id,
            actor_id=by,
            run_id=suspension.origin.run_id,
            detail={"tool_name": a.call.tool_name, "tool_call_id": a.call.tool_call_id},
        )
        for a in suspension.approvals
    ]
