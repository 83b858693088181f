"""Withdrawing suspensions whose run is over (S4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hango_approvals.domain.audit import Entry, Target
from hango_approvals.domain.suspension import State
from hango_approvals.use_cases import close

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.telemetry.metrics import Metrics

    from hango_approvals.domain.suspension import Origin
    from hango_approvals.postgres.maintenance import Stale
    from hango_approvals.postgres.store import Store
    from hango_approvals.runs_client import RunsClient

log = logging.getLogger(__name__)

_PAGE = 500
_OVER = frozenset({"succeeded", "failed", "cancelled"})


class WithdrawSuspension:
    """Takes a suspension back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, suspension_id: str, origin: Origin, *, by: str | None) -> State:
        """Withdraw it, and say how it stands: decided or expired where that was first.

        An unknown one leaves a tombstone, so that a late open opens nothing.
        """
        async with self._store.tenant(origin.tenant_id) as work:
            if await work.suspensions.insert_tombstone(suspension_id, origin, by=by):
                await work.audit.append(
                    origin.tenant_id, [_tombstone_entry(suspension_id, origin, by)]
                )
                return State.WITHDRAWN
            suspension = await work.suspensions.lock(origin.tenant_id, suspension_id)
            if suspension is None:
                msg = f"suspension {suspension_id} belongs to another tenant"
                raise LookupError(msg)
            if suspension.state is not State.PENDING:
                return suspension.state
            await close.withdraw(work, suspension, by=by)
            return State.WITHDRAWN


def _tombstone_entry(suspension_id: str, origin: Origin, by: str | None) -> Entry:
    return Entry(
        action="approval.withdraw",
        target_kind=Target.RUN,
        target_id=origin.run_id,
        actor_id=by,
        run_id=origin.run_id,
        detail={"suspension_id": suspension_id, "opened": False},
    )


class ReconcileSuspensions:
    """Withdraws what a lost message left pending."""

    def __init__(self, store: Store, runs: RunsClient, metrics: Metrics) -> None:
        self._store = store
        self._runs = runs
        self._metrics = metrics

    async def __call__(self, limit: int) -> int:
        """Withdraw up to `limit` suspensions, pending for a minute, whose run is over or unknown
        to R; how many that were. Raises Unavailable where R does not answer.
        """
        repaired = 0
        last: Stale | None = None
        while repaired < limit:
            async with self._store.system() as work:
                page = await work.maintenance.stale(last, _PAGE)
            for stale in await self._gone(page):
                if repaired < limit and await self._withdraw(stale):
                    repaired += 1
            if len(page) < _PAGE:
                break
            last = page[-1]
        return repaired

    async def _gone(self, page: Sequence[Stale]) -> list[Stale]:
        if not page:
            return []
        runs = await self._runs.states([s.run_id for s in page])
        return [s for s in page if s.run_id not in runs or runs[s.run_id].state in _OVER]

    async def _withdraw(self, stale: Stale) -> bool:
        async with self._store.tenant(stale.tenant_id) as work:
            suspension = await work.suspensions.lock(stale.tenant_id, stale.id)
            done = suspension is not None and await close.withdraw(work, suspension, by=None)
        if done:
            self._metrics.reconciler_repairs.inc()
            log.warning(
                "suspension of a finished run withdrawn",
                extra={"suspension_id": stale.id, "run_id": stale.run_id},
            )
        return bool(done)
