"""Expiring suspensions that nobody decided in time (S3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform import faults

from hango_approvals.use_cases import close

if TYPE_CHECKING:
    from hango_platform.telemetry.metrics import Metrics

    from hango_approvals.postgres.store import Store


class ExpireSuspensions:
    """The clock's work; driven by the sweeper, harmless when driven twice."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    async def __call__(self, limit: int) -> int:
        """Expire up to `limit` suspensions, one a transaction; how many that were."""
        for done in range(limit):
            async with self._store.system() as work:
                due = await work.suspensions.lock_due()
                if due is None:
                    return done
                expired = await close.expire(work, due)
                if faults.ACTIVE:
                    await faults.reach("before_expire")
            if faults.ACTIVE:
                await faults.reach("after_expire")
            close.count_expired(self._metrics, expired)
        return limit
