"""The audit trail in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.postgres.queries import load

from hango_approvals.domain.audit import GENESIS, Head, chain
from hango_approvals.domain.signing import Kind, Place, SignedPlace
from hango_approvals.postgres import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from hango_platform.postgres.transaction import Transaction

    from hango_approvals.domain.audit import Entry, Record

SQL = load(__package__)


class AuditTrail:
    """The statements about the trail, within one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def append(self, tenant_id: str, entries: Sequence[Entry]) -> None:
        """Write entries behind the end of the tenant's chain. Raises LookupError where it has
        none.
        """
        if entries:
            await self._append(tenant_id, await self._lock_head(tenant_id), entries)

    async def append_new(self, tenant_id: str, entries: Sequence[Entry]) -> None:
        """Write those entries that have no row yet, by their ids. Raises LookupError where the
        tenant has no chain.
        """
        head = await self._lock_head(tenant_id)
        known = await self._tx.many(SQL.recorded, tenant_id, [e.id for e in entries])
        there = {str(r["id"]) for r in known}
        new = {e.id: e for e in entries if e.id not in there}
        if new:
            await self._append(tenant_id, head, list(new.values()))

    async def _lock_head(self, tenant_id: str) -> Head:
        row = await self._tx.one(SQL.lock_audit_head, tenant_id)
        if row is None:
            msg = f"tenant {tenant_id} has no audit chain"
            raise LookupError(msg)
        return Head(row["seq"], row["hash"], row["now"])

    async def _append(self, tenant_id: str, head: Head, entries: Sequence[Entry]) -> None:
        records = chain(tenant_id, head, entries)
        await self._tx.exec(
            SQL.append_audit,
            tenant_id,
            [r.seq for r in records],
            [r.id for r in records],
            [r.at for r in records],
            [r.actor_kind for r in records],
            [r.actor_id for r in records],
            [r.action for r in records],
            [r.target_kind for r in records],
            [r.target_id for r in records],
            [r.run_id for r in records],
            [r.outcome for r in records],
            [r.detail for r in records],
            [r.trace_id for r in records],
            [r.prev_hash for r in records],
            [r.hash for r in records],
            records[-1].seq,
            records[-1].hash,
        )

    async def begin(self, tenant_id: str) -> None:
        """Begin the chain of a new tenant; does nothing where there is one."""
        await self._tx.exec(SQL.create_audit_head, tenant_id, GENESIS)

    async def newest(
        self,
        tenant_id: str,
        *,
        run_id: str | None,
        target_id: str | None,
        action: str | None,
        actor_id: str | None,
        before: int | None,
        limit: int,
    ) -> list[Record]:
        """Rows, newest first."""
        found = await self._tx.many(
            SQL.list_audit, tenant_id, run_id, target_id, action, actor_id, before, limit
        )
        return [rows.record(r) for r in found]

    async def lifecycle(self, tenant_id: str, target_id: str) -> list[Record]:
        """All rows about one target, oldest first."""
        found = await self._tx.many(SQL.lifecycle, tenant_id, target_id)
        return [rows.record(r) for r in found]

    async def start(self, tenant_id: str) -> SignedPlace | None:
        """Where the chain begins, if its oldest rows were pruned."""
        row = await self._tx.one(SQL.audit_start, tenant_id)
        if row is None:
            return None
        place = Place(tenant_id, row["seq"], row["hash"], row["at"])
        return SignedPlace(Kind.CHECKPOINT, place, row["signature"], row["public_key"])

    async def ends(self) -> list[Place]:
        """The newest row of every chain, over all tenants."""
        found = await self._tx.many(SQL.audit_ends)
        return [Place(str(r["tenant_id"]), r["seq"], r["hash"], r["at"]) for r in found]

    async def prunable(self, tenant_id: str, age: timedelta, limit: int) -> Place | None:
        """The last row older than this among the first so many. Locks the chain. Raises LookupError
        where there is none.
        """
        await self._lock_head(tenant_id)
        row = await self._tx.one(SQL.prunable_audit, tenant_id, age, limit)
        return None if row is None else Place(tenant_id, row["seq"], row["hash"], row["at"])

    async def prune(self, upto: SignedPlace) -> int:
        """Delete the rows up to a signed place; how many they were."""
        place = upto.place
        await self._tx.exec(
            SQL.insert_checkpoint,
            place.tenant_id,
            place.seq,
            place.hash,
            place.at,
            upto.signature,
            upto.public_key,
        )
        return await self._tx.exec(SQL.prune_audit, place.tenant_id, place.seq)

    async def page(
        self, tenant_id: str, after: int, limit: int
    ) -> tuple[list[Record], tuple[int, str] | None]:
        """The next rows in order, and the head of the chain at the same moment, if it is there."""
        found = await self._tx.many(SQL.audit_page, tenant_id, after, limit)
        first = found[0]
        head = None if first["head_seq"] is None else (first["head_seq"], first["head_hash"])
        return [rows.record(r) for r in found if r["seq"] is not None], head
