"""Reading the audit trail, and proving it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_approvals.domain.audit import Verifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hango_approvals.domain.audit import AuditFilter, Record
    from hango_approvals.postgres.store import Store

_PAGE = 1000


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


class VerifyAudit:
    """Recomputes chains."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, tenant_id: str) -> Verifier:
        """The tenant's chain, read to its end: what was checked, and what is wrong."""
        verifier = Verifier()
        while True:
            # A transaction a page: rows are only ever appended, and a long one would hold back
            # the cleaning of the whole database.
            async with self._store.tenant(tenant_id) as work:
                records, head = await work.audit.page(tenant_id, verifier.seq, _PAGE)
            verifier.read(records)
            if len(records) < _PAGE:
                verifier.end(head)
                return verifier


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
