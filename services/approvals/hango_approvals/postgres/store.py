"""Transactions, with what can be done in them named by intent."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hango_platform.outbox import outbox
from hango_platform.outbox.relay import LEASE

from hango_approvals.mapping.events import outbox_row
from hango_approvals.postgres.audit import AuditTrail
from hango_approvals.postgres.directory import Directory
from hango_approvals.postgres.maintenance import Maintenance
from hango_approvals.postgres.suspensions import Suspensions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hango_platform.outbox.relay import Relay
    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Transaction

    from hango_approvals.domain.events import Event


class Work:
    """One transaction. What is announced is sent once it is committed."""

    def __init__(self, tx: Transaction, relay: Relay) -> None:
        self._tx = tx
        self._relay = relay
        self.suspensions = Suspensions(tx)
        self.audit = AuditTrail(tx)
        self.directory = Directory(tx)
        self.maintenance = Maintenance(tx)

    async def announce(self, events: Sequence[Event]) -> None:
        """Store events with the change that they tell of."""
        rows = [outbox_row(event) for event in events]
        await outbox.write(self._tx, rows, relay=self._relay, lease=LEASE)


class Store:
    """Begins transactions, for one tenant or over all of them. Both raise Unavailable and
    OutcomeUnknown."""

    def __init__(self, database: Database, relay: Relay) -> None:
        self._database = database
        self._relay = relay

    @asynccontextmanager
    async def tenant(self, tenant_id: str) -> AsyncIterator[Work]:
        """A transaction that sees this tenant alone."""
        async with self._database.tenant(tenant_id) as tx:
            yield Work(tx, self._relay)

    @asynccontextmanager
    async def system(self) -> AsyncIterator[Work]:
        """A transaction over all tenants."""
        async with self._database.system() as tx:
            yield Work(tx, self._relay)
