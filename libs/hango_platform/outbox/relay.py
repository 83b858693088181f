"""Sends what the outbox holds, at least once each, until it is taken."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.errors import Unavailable
from hango_platform.outbox.outbox import SQL, OutboxRow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from hango_platform.postgres.pool import Database
    from hango_platform.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=3)
_BATCH = 200
_OFFERED = 2000
_POLL = 1.0
_SETTLE = 0.3


class Unreachable(Exception):
    """Whoever takes these rows cannot be reached: nothing is wrong with the rows."""


class Refused(Exception):
    """One row was refused for what it is."""

    def __init__(self, row: OutboxRow, why: str) -> None:
        super().__init__(why)
        self.row = row


class Relay:
    """Sends rows by kind.

    Rows come by two ways: `offer` right after the commit that wrote them, and a claim every second
    for what was left behind. Both end in the same mark. A sender raises Unreachable (backs off to
    5 s, the rows stay) or Refused (counts against the row).
    """

    def __init__(
        self,
        database: Database,
        senders: dict[str, Callable[[OutboxRow], Awaitable[None]]],
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._senders = senders
        self._metrics = metrics
        self._offered: deque[OutboxRow] = deque()
        self._sent: list[str] = []
        self._wake = asyncio.Event()
        self._pause = 0.0

    def offer(self, rows: Iterable[OutboxRow]) -> None:
        """Send these rows of a committed transaction now; more than fit are left to the claim."""
        for row in rows:
            if len(self._offered) < _OFFERED:
                self._offered.append(row)
        self._wake.set()

    async def run(self) -> None:
        """Send, for ever."""
        loop = asyncio.get_running_loop()
        poll_at = 0.0
        while True:
            if self._offered and not self._pause:
                rows = [self._offered.popleft() for _ in range(min(_BATCH, len(self._offered)))]
                await self._send(rows)
                continue
            if self._sent:
                # More is often on its way: one mark for all that was sent in a moment.
                await self._rest(_SETTLE)
                if self._offered and len(self._sent) < _BATCH:
                    continue
                await self._mark()
                continue
            if loop.time() >= poll_at:
                claimed = await self._claim()
                if len(claimed) < _BATCH:
                    poll_at = loop.time() + max(_POLL, self._pause)
                if claimed:
                    await self._send(claimed)
                    await self._mark()
                continue
            await self._rest(poll_at - loop.time())

    async def _rest(self, seconds: float) -> None:
        self._wake.clear()
        if self._offered and not self._pause:
            return
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _claim(self) -> Sequence[OutboxRow]:
        # What is offered while the other side is away is dropped here: its lease ends, and it is
        # claimed like the rest.
        self._offered.clear()
        try:
            async with self._database.system() as tx:
                rows = await tx.many(SQL.claim_outbox, _BATCH, LEASE)
        except Unavailable:
            return []
        return [
            OutboxRow(
                id=str(r["id"]),
                tenant_id=str(r["tenant_id"]),
                kind=r["kind"],
                key=r["key"],
                payload=r["payload"],
                traceparent=r["traceparent"],
            )
            for r in rows
        ]

    async def _send(self, rows: Sequence[OutboxRow]) -> None:
        results = await asyncio.gather(*map(self._send_one, rows), return_exceptions=True)
        unreachable = False
        for row, result in zip(rows, results, strict=True):
            match result:
                case None:
                    self._sent.append(row.id)
                case Refused():
                    await self._refuse(row, str(result))
                case Unreachable():
                    unreachable = True
                case _:
                    raise result
        self._pause = min(5.0, self._pause * 2 or 0.5) if unreachable else 0.0
        if faults.ACTIVE:
            await faults.reach("relay_after_publish")

    async def _send_one(self, row: OutboxRow) -> None:
        await self._senders[row.kind](row)

    async def _refuse(self, row: OutboxRow, why: str) -> None:
        log.error("outbox row refused", extra={"kind": row.kind, "row": row.id, "why": why})
        try:
            async with self._database.system() as tx:
                await tx.exec(SQL.mark_refused, row.id, why)
        except Unavailable:
            log.warning("the refusal was not noted", extra={"row": row.id})

    async def _mark(self) -> None:
        sent, self._sent = self._sent, []
        if not sent:
            return
        try:
            async with self._database.system() as tx:
                await tx.exec(SQL.mark_published, sent)
        except Unavailable:
            # They are sent again when their lease ends: at least once is what was promised.
            log.warning("sent rows were not marked", extra={"rows": len(sent)})

    async def measure(self) -> None:
        """Set the outbox's gauges from the table."""
        async with self._database.system() as tx:
            row = await tx.one(SQL.outbox_backlog)
        if row is not None:
            self._metrics.outbox_backlog.set(row["backlog"])
            self._metrics.outbox_oldest_age.set(row["oldest_age"])
            self._metrics.outbox_dead.set(row["dead"])
