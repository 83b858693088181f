"""What is done over all tenants: reports, checks, pruning, counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.outbox.outbox import SQL as OUTBOX
from hango_platform.postgres.queries import load

from hango_approvals.domain.suspension import Execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hango_platform.postgres.transaction import Transaction

SQL = load(__package__)


@dataclass(frozen=True, slots=True)
class Reported:
    """An approval that something was reported of. `digest` is that of the bytes to run."""

    id: str
    tenant_id: str
    run_id: str
    tool_name: str
    tool_call_id: str
    execution: Execution
    digest: str


@dataclass(frozen=True, slots=True)
class Stale:
    """A suspension that has been pending for a minute."""

    id: str
    tenant_id: str
    run_id: str
    expires_at: datetime


class Maintenance:
    """Statements of the system role, within one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def lock_reported(self, approval_ids: Sequence[str]) -> list[Reported]:
        """These approvals, locked; unknown ones are left out."""
        found = await self._tx.many(SQL.lock_reported, approval_ids)
        return [
            Reported(
                str(r["id"]),
                str(r["tenant_id"]),
                str(r["run_id"]),
                r["tool_name"],
                r["tool_call_id"],
                Execution(r["execution_state"]),
                r["digest"],
            )
            for r in found
        ]

    async def set_executions(self, reached: Mapping[str, tuple[Execution, datetime]]) -> None:
        """Store what became of approvals, by their ids."""
        await self._tx.exec(
            SQL.set_executions,
            list(reached),
            [state.value for state, _ in reached.values()],
            [at for _, at in reached.values()],
        )

    async def stale(self, after: Stale | None, limit: int) -> list[Stale]:
        """The next suspensions that have been pending for a minute."""
        found = await self._tx.many(
            SQL.stale_suspensions,
            after.expires_at if after else None,
            after.id if after else None,
            limit,
        )
        return [
            Stale(str(r["id"]), str(r["tenant_id"]), str(r["run_id"]), r["expires_at"])
            for r in found
        ]

    async def prune(self, limit: int) -> int:
        """Delete what is older than a day: published outbox rows and idempotency records."""
        published = await self._tx.exec(OUTBOX.prune_outbox, limit)
        return published + await self._tx.exec(SQL.prune_idempotency, limit)

    async def faults(self) -> Mapping[str, int]:
        """The counts of what must never be."""
        row = await self._tx.one(SQL.count_faults)
        return dict(row or {})

    async def tenants(self) -> list[str]:
        """The ids of all tenants."""
        return [str(r["id"]) for r in await self._tx.many(SQL.audited_tenants)]

    async def pending_by_tool(self) -> dict[str, int]:
        """How many calls wait, by tool."""
        return {r["tool_name"]: r["pending"] for r in await self._tx.many(SQL.pending_by_tool)}
