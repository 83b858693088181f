"""Telling the runner how suspensions stand, and forgetting what is old."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_approvals.domain.verdict import Verdict
    from hango_approvals.postgres.store import Store
    from hango_approvals.use_cases.audit import PruneAudit


class GetVerdicts:
    """Reads verdicts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """How these suspensions stand, of any tenant; unknown ones are left out."""
        async with self._store.system() as work:
            return await work.suspensions.verdicts(suspension_ids)


class PruneApprovals:
    """Deletes what nobody asks for any more."""

    def __init__(self, store: Store, audit: PruneAudit | None = None) -> None:
        self._store = store
        self._audit = audit

    async def __call__(self, limit: int) -> int:
        """Delete up to `limit` rows each of published events and of answers older than a day; and
        audit rows past their retention, if there is one.
        """
        async with self._store.system() as work:
            pruned = await work.maintenance.prune(limit)
        return pruned + (await self._audit() if self._audit is not None else 0)
