"""Writing to the outbox, inside the transaction of the change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hango_platform import ids
from hango_platform.postgres.queries import load
from hango_platform.telemetry import trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from hango_platform.outbox.relay import Relay
    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Transaction
    from hango_platform.telemetry.metrics import Metrics

SQL = load(__package__)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """Something that must be told. `kind` names who takes it, `key` what it is about (a subject,
    a suspension).
    """

    tenant_id: str
    kind: str
    key: str
    payload: bytes
    id: str = field(default_factory=ids.new_id)
    traceparent: str = field(default_factory=trace.traceparent)


async def write(
    tx: Transaction, rows: Sequence[OutboxRow], *, relay: Relay | None, lease: timedelta
) -> None:
    """Store rows with the change. With a relay they are sent at once after the commit; without
    one, when the lease ends.
    """
    if not rows:
        return
    await tx.exec(
        SQL.insert_outbox,
        [r.id for r in rows],
        [r.tenant_id for r in rows],
        [r.kind for r in rows],
        [r.key for r in rows],
        [r.payload for r in rows],
        [r.traceparent for r in rows],
        lease,
    )
    if relay is not None:
        tx.after_commit(lambda: relay.offer(rows))


async def measure(database: Database, metrics: Metrics) -> None:
    """Set the outbox's gauges from the table. Raises Unavailable."""
    async with database.system() as tx:
        row = await tx.one(SQL.outbox_backlog)
    if row is not None:
        metrics.outbox_backlog.set(row["backlog"])
        metrics.outbox_oldest_age.set(row["oldest_age"])
        metrics.outbox_dead.set(row["dead"])
