"""Reading the audit trail, and proving it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hango_approvals.domain.audit import Entry, Problem, Target, Verifier
from hango_approvals.domain.signing import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from hango_approvals.domain.audit import AuditFilter, Record
    from hango_approvals.domain.signing import SignedPlace, Signer
    from hango_approvals.postgres.store import Store

_PAGE = 1000
_PRUNED = 2000


class ListAudit:
    """Reads rows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self, tenant_id: str, wanted: AuditFilter, before: int | None, limit: int
    ) -> list[Record]:
        """Rows before a number, newest first."""
        async with self._store.tenant(tenant_id) as work:
            return await work.audit.newest(
                tenant_id,
                run_id=wanted.run_id,
                target_id=wanted.target_id,
                action=wanted.action,
                actor_id=wanted.actor_id,
                before=before,
                limit=limit,
            )


class Anchors(Protocol):
    """Where signed heads are kept, outside the database."""

    async def append(self, heads: Sequence[SignedPlace]) -> None:
        """Keep these."""

    async def newest(self, tenant_id: str) -> tuple[int, str] | None:
        """The number and hash of a tenant's newest one."""


class VerifyAudit:
    """Recomputes chains."""

    def __init__(
        self, store: Store, signer: Signer | None = None, anchors: Anchors | None = None
    ) -> None:
        self._store = store
        self._signer = signer
        self._anchors = anchors

    async def __call__(self, tenant_id: str) -> Verifier:
        """The tenant's chain, read to its end: what was checked, and what is wrong with it, also
        beside the heads that were signed and kept elsewhere.
        """
        while True:
            start = await self._start(tenant_id)
            verifier = await self._verify(tenant_id, start)
            # Rows that were pruned meanwhile are not missing.
            if not verifier.problems or start == await self._start(tenant_id):
                return verifier

    async def _start(self, tenant_id: str) -> SignedPlace | None:
        async with self._store.tenant(tenant_id) as work:
            return await work.audit.start(tenant_id)

    async def _verify(self, tenant_id: str, start: SignedPlace | None) -> Verifier:
        anchor = await self._anchors.newest(tenant_id) if self._anchors is not None else None
        if start is None:
            verifier = Verifier(anchor=anchor)
        else:
            verifier = Verifier((start.place.seq, start.place.hash), anchor)
            if self._signer is None or not self._signer.holds(start, Kind.CHECKPOINT):
                unknown = "rows were pruned up to here without a signature that counts"
                verifier.problems.append(Problem(start.place.seq, unknown))
        while True:
            # A transaction a page: rows are only ever appended, and a long one would hold back
            # the cleaning of the whole database.
            async with self._store.tenant(tenant_id) as work:
                records, head = await work.audit.page(tenant_id, verifier.seq, _PAGE)
            verifier.read(records)
            if len(records) < _PAGE:
                verifier.end(head)
                return verifier


class ExportAudit:
    """Reads chains in their own order."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self, tenant_id: str, after: int, limit: int
    ) -> tuple[list[Record], SignedPlace | None]:
        """Rows behind a number, oldest first, and where the chain begins if it was pruned."""
        async with self._store.tenant(tenant_id) as work:
            records, _ = await work.audit.page(tenant_id, after, limit)
            return records, await work.audit.start(tenant_id)


class AnchorHeads:
    """Signs the ends of all chains and keeps them outside the database."""

    def __init__(self, store: Store, signer: Signer, anchors: Anchors) -> None:
        self._store = store
        self._signer = signer
        self._anchors = anchors
        self._kept: dict[str, int] = {}

    async def __call__(self) -> int:
        """Sign those that have moved; how many they were. Raises OSError, Unavailable."""
        async with self._store.system() as work:
            ends = await work.audit.ends()
        moved = [end for end in ends if self._kept.get(end.tenant_id) != end.seq]
        if moved:
            await self._anchors.append([self._signer.sign(Kind.HEAD, end) for end in moved])
            self._kept.update({end.tenant_id: end.seq for end in moved})
        return len(moved)


class PruneAudit:
    """Deletes rows past their retention, behind a signed checkpoint."""

    def __init__(self, store: Store, signer: Signer, age: timedelta) -> None:
        self._store = store
        self._signer = signer
        self._age = age

    async def __call__(self) -> int:
        """Delete a few thousand rows of each tenant at most; how many they were."""
        async with self._store.system() as work:
            tenants = await work.maintenance.tenants()
        return sum([await self._prune(tenant_id) for tenant_id in tenants])

    async def _prune(self, tenant_id: str) -> int:
        async with self._store.system() as work:
            last = await work.audit.prunable(tenant_id, self._age, _PRUNED)
            if last is None:
                return 0
            pruned = await work.audit.prune(self._signer.sign(Kind.CHECKPOINT, last))
            detail = {"upto": last.seq, "hash": last.hash, "rows": pruned}
            entry = Entry("audit.prune", Target.TENANT, tenant_id, detail=detail)
            await work.audit.append(tenant_id, [entry])
        return pruned


class CheckApprovals:
    """Counts what must never be."""

    def __init__(self, store: Store, verify: VerifyAudit) -> None:
        self._store = store
        self._verify = verify

    async def __call__(self) -> Mapping[str, int]:
        """`executed_undecided`, `decided_unaudited`, `decided_unexecuted`, `broken_chains`."""
        async with self._store.system() as work:
            faults = await work.maintenance.faults()
            tenants = await work.maintenance.tenants()
        broken = [t for t in tenants if (await self._verify(t)).problems]
        return {**faults, "broken_chains": len(broken)}
