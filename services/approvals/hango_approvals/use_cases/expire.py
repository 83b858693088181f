"""Expiring suspensions that nobody decided in time (S3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hango_platform import faults

from hango_approvals.use_cases import close

if TYPE_CHECKING:
    from hango_platform.telemetry.metrics import Metrics

    from hango_approvals.postgres.store import Store

_AT_ONCE = 4


class ExpireSuspensions:
    """The clock's work; driven by the sweeper, harmless when driven twice."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    async def __call__(self, limit: int) -> int:
        """Expire up to `limit` suspensions, one a transaction, a few at a time; how many that
        were.
        """
        left = iter(range(limit))

        async def work() -> int:
            done = 0
            for _ in left:
                if not await self._expire_one():
                    break
                done += 1
            return done

        ends = await asyncio.gather(*(work() for _ in range(_AT_ONCE)), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return sum(end for end in ends if isinstance(end, int))

    async def _expire_one(self) -> bool:
        """Expire the one that is due for longest, but for those that others are at."""
        async with self._store.system() as work:
            due = await work.suspensions.lock_due()
            if due is None:
                return False
            expired = await close.expire(work, due)
            if faults.ACTIVE:
                await faults.reach("before_expire")
        if faults.ACTIVE:
            await faults.reach("after_expire")
        close.count_expired(self._metrics, expired)
        return True
