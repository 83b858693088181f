"""Sends what the outbox holds, at least once each, until it is taken."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from hango_platform import clock, faults
from hango_platform.errors import OutcomeUnknown, Unavailable
from hango_platform.outbox.outbox import SQL, OutboxRow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from hango_platform.postgres.pool import Database

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=3)
LONGEST_PAUSE = 5.0

_BATCH = 200
_OFFERED = 2000
_DELIVERIES = 16
_POLL = 0.5
_SETTLE = 0.3


class Unreachable(Exception):
    """Whoever takes these rows cannot be reached: nothing is wrong with the rows."""


class Refused(Exception):
    """One row was refused for what it is."""

    def __init__(self, row: OutboxRow, why: str) -> None:
        super().__init__(why)
        self.row = row


class Relay:
    """Sends the rows of some kinds, all of which go to one other side.

    Rows come by two ways: `offer` right after the commit that wrote them, and a claim every half
    second for what was left behind. Both end in the same mark. What is offered is sent at once,
    though the other side has not acknowledged what went before: a broker that syncs every message
    to its disk takes its time.

    `senders` take one row each, `batch_senders` all rows of their kind that are at hand. A sender
    raises Unreachable (the relay backs off to 5 s, the rows stay) or Refused (counts against that
    row, as any fault of the sender does: a row that cannot be sent must not stand in the way of
    the others).
    """

    def __init__(
        self,
        database: Database,
        senders: Mapping[str, Callable[[OutboxRow], Awaitable[None]]],
        batch_senders: Mapping[str, Callable[[Sequence[OutboxRow]], Awaitable[None]]] | None = None,
    ) -> None:
        self._database = database
        self._senders = senders
        self._batch_senders = batch_senders or {}
        self._kinds = [*senders, *self._batch_senders]
        self._offered: deque[OutboxRow] = deque()
        self._sent: list[str] = []
        self._mark_at = 0.0
        self._poll_at = 0.0
        self._pause = 0.0
        self._deliveries = 0
        self._wake = asyncio.Event()
        self._sent_some = asyncio.Event()

    def offer(self, rows: Iterable[OutboxRow]) -> None:
        """Send these rows of a committed transaction now; more than fit are left to the claim."""
        for row in rows:
            if len(self._offered) < _OFFERED:
                self._offered.append(row)
        self._wake.set()

    async def run(self) -> None:
        """Send, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep())
            while True:
                self._wake.clear()
                while self._offered and not self._pause and self._deliveries < _DELIVERIES:
                    n = min(_BATCH, len(self._offered))
                    batch = [self._offered.popleft() for _ in range(n)]
                    self._deliveries += 1
                    group.create_task(self._deliver(batch))
                await self._wake.wait()

    async def _deliver(self, batch: Sequence[OutboxRow]) -> None:
        try:
            await self._send(batch)
        finally:
            self._deliveries -= 1
            self._wake.set()

    async def _keep(self) -> None:
        """Mark what was sent, and claim what was left behind, each at its time."""
        while True:
            self._sent_some.clear()
            if self._sent and (len(self._sent) >= _BATCH or clock.monotonic() >= self._mark_at):
                await self._mark()
            if clock.monotonic() >= self._poll_at:
                await self._poll()
            await self._rest()

    async def _rest(self) -> None:
        """Until the next mark or claim is due."""
        due = min(self._poll_at, self._mark_at) if self._sent else self._poll_at
        try:
            async with asyncio.timeout(max(due - clock.monotonic(), 0)):
                await self._sent_some.wait()
        except TimeoutError:
            return

    async def _poll(self) -> None:
        if self._pause:
            # While the other side is away the offered rows are let go of: their leases end, and
            # they are claimed like the rest.
            self._offered.clear()
        rows = await self._claim()
        if rows:
            await self._send(rows)
            await self._mark()
        self._poll_at = clock.monotonic() + (
            0 if len(rows) == _BATCH and not self._pause else max(_POLL, self._pause)
        )

    async def _claim(self) -> Sequence[OutboxRow]:
        try:
            async with self._database.system() as tx:
                rows = await tx.many(SQL.claim_outbox, self._kinds, _BATCH, LEASE)
        except (Unavailable, OutcomeUnknown):
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
        """Send each, and keep account of what became of it."""
        sends: list[tuple[Sequence[OutboxRow], Awaitable[None]]] = []
        by_kind = groupby(sorted(rows, key=lambda r: r.kind), key=lambda r: r.kind)
        for kind, of_kind in by_kind:
            same = list(of_kind)
            if kind in self._batch_senders:
                sends.append((same, self._batch_senders[kind](same)))
            else:
                sends += [([row], self._senders[kind](row)) for row in same]
        results = await asyncio.gather(*(s for _, s in sends), return_exceptions=True)
        unreachable = False
        for (group, _), result in zip(sends, results, strict=True):
            unreachable |= isinstance(result, Unreachable)
            await self._account(group, result)
        self._pause = min(LONGEST_PAUSE, self._pause * 2 or _POLL) if unreachable else 0.0
        self._wake.set()

    async def _account(self, rows: Sequence[OutboxRow], result: BaseException | None) -> None:
        if result is None:
            if not self._sent:
                # More is often on its way: one mark for all that is sent in a moment.
                self._mark_at = clock.monotonic() + _SETTLE
            self._sent += [row.id for row in rows]
            if len(self._sent) >= _BATCH or len(self._sent) == len(rows):
                self._sent_some.set()
        elif isinstance(result, Unreachable):
            log.info("outbox rows wait", extra={"kind": rows[0].kind, "why": str(result)})
        elif isinstance(result, Refused):
            await self._refuse(result.row, str(result))
        elif isinstance(result, Exception):
            log.error("outbox sender failed", exc_info=result, extra={"kind": rows[0].kind})
            for row in rows:
                await self._refuse(row, type(result).__name__)
        else:
            raise result

    async def _refuse(self, row: OutboxRow, why: str) -> None:
        log.error("outbox row refused", extra={"kind": row.kind, "row": row.id, "why": why})
        try:
            async with self._database.system() as tx:
                await tx.exec(SQL.mark_refused, row.id, why)
        except (Unavailable, OutcomeUnknown):
            log.warning("the refusal was not noted", extra={"row": row.id})

    async def _mark(self) -> None:
        sent, self._sent = self._sent, []
        if not sent:
            return
        try:
            async with self._database.system() as tx:
                await tx.exec(SQL.mark_published, sent)
                if faults.ACTIVE:
                    await faults.reach("before_mark")
        except (Unavailable, OutcomeUnknown):
            # They are sent again when their lease ends: at least once is what was promised.
            log.warning("sent rows were not marked", extra={"rows": len(sent)})
