"""Opening a suspension (S1)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.errors import Conflict, NotFound

from hango_approvals.domain.events import ApprovalChanged, EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from hango_approvals.domain.suspension import Approval, Call, Origin, State, Suspension
    from hango_approvals.postgres.store import Store
    from hango_approvals.postgres.suspensions import Opened as There

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """How the suspension stands; both times are None for a tombstone."""

    state: State
    approvals: tuple[Approval, ...]
    opened_at: datetime | None
    expires_at: datetime | None


class OpenSuspension:
    """Makes the approvals of a paused run."""

    def __init__(self, store: Store, ttl: timedelta) -> None:
        self._store = store
        self._ttl = ttl

    async def __call__(
        self,
        suspension_id: str,
        origin: Origin,
        calls: Sequence[Call],
        *,
        turn: int,
        batch_sha256: bytes,
        traceparent: str,
    ) -> Opened:
        """Open the suspension, or say how it stands: a repeat changes nothing.

        Raises Conflict where the same id was opened with other calls, NotFound for an unknown
        tenant.
        """
        async with self._store.tenant(origin.tenant_id) as work:
            opened = await work.suspensions.open(
                suspension_id,
                origin,
                calls,
                turn=turn,
                batch_sha256=batch_sha256,
                traceparent=traceparent,
                ttl=self._ttl,
            )
            if opened is not None:
                await work.announce(
                    ApprovalChanged.of(EventKind.REQUESTED, opened, opened.created_at)
                )
                if faults.ACTIVE:
                    await faults.reach("before_open")
            else:
                there = await work.suspensions.opened(origin.tenant_id, suspension_id)
                return _as_it_stands(there, suspension_id, batch_sha256)
        if faults.ACTIVE:
            await faults.reach("after_open")
        _tell(opened)
        return Opened(opened.state, opened.approvals, opened.created_at, opened.expires_at)


def _as_it_stands(there: There | None, suspension_id: str, batch_sha256: bytes) -> Opened:
    if there is None:
        msg = "there is no such tenant"
        raise NotFound(msg)
    if there.batch_sha256 is None:
        return Opened(there.state, (), None, None)
    if there.batch_sha256 != batch_sha256:
        log.error(
            "a suspension was opened again with other calls",
            extra={"suspension_id": suspension_id},
        )
        msg = "this suspension was opened with other calls"
        raise Conflict(msg)
    return Opened(there.state, there.approvals, there.created_at, there.expires_at)


def _tell(suspension: Suspension) -> None:
    for a in suspension.approvals:
        log.info(
            "approval requested",
            extra={
                "run_id": suspension.origin.run_id,
                "approval_id": a.id,
                "tool": a.call.tool_name,
                "tool_call_id": a.call.tool_call_id,
            },
        )
