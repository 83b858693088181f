"""Approvals as people read them. A member sees those of the runs that he created."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hango_platform.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from hango_platform.rpc.caller import Principal

    from hango_approvals.domain.audit import Record
    from hango_approvals.domain.suspension import Approval, Filter, Suspension
    from hango_approvals.postgres.store import Store
    from hango_approvals.runs_client import RunsClient


@dataclass(frozen=True, slots=True)
class Detail:
    """One approval, the suspension that it belongs to, and what happened to it, oldest first."""

    approval: Approval
    suspension: Suspension
    lifecycle: list[Record]


def _sees_only(by: Principal) -> str | None:
    return None if by.role.may_decide else by.user_id


class GetApproval:
    """Reads one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, approval_id: str, *, by: Principal) -> Detail:
        """The approval with its batch and its lifecycle. Raises NotFound."""
        async with self._store.tenant(by.tenant_id) as work:
            found = await work.suspensions.find(by.tenant_id, approval_id, _sees_only(by))
            suspension = await work.suspensions.read(by.tenant_id, found) if found else None
            if suspension is None:
                raise NotFound
            lifecycle = await work.audit.lifecycle(by.tenant_id, approval_id)
        approval = next(a for a in suspension.approvals if a.id == approval_id)
        return Detail(approval, suspension, lifecycle)


class ListApprovals:
    """Reads the queue."""

    def __init__(self, store: Store, runs: RunsClient) -> None:
        self._store = store
        self._runs = runs

    async def __call__(
        self,
        wanted: Filter,
        after: tuple[datetime, str] | None,
        limit: int,
        *,
        by: Principal,
    ) -> list[Suspension]:
        """Approvals after a place, oldest first, each in a suspension that holds it alone.

        Raises NotFound where they are asked for by a run that the caller may not see.
        """
        seen = _sees_only(by)
        async with self._store.tenant(by.tenant_id) as work:
            found = await work.suspensions.queue(
                by.tenant_id, replace(wanted, requested_by=seen), after, limit
            )
            if found or wanted.run_id is None:
                return found
            if await work.suspensions.knows_run(by.tenant_id, wanted.run_id, seen):
                return []
        run = await self._runs.find(wanted.run_id)
        if run is None or run.tenant_id != by.tenant_id or seen not in (None, run.created_by):
            raise NotFound
        return []
