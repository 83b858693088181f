"""Takes runs from the queue and drives them, as many of each lane as it has slots."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hango_platform import clock
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable
from hango_platform.telemetry import trace

from hango_runner.agent.chain import AwaitingApproval
from hango_runner.agent.loop import Drained
from hango_runner.agent.state import Finished, LeaseLost
from hango_runner.domain.run import FailureReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from hango_platform.telemetry.metrics import Metrics

    from hango_runner.agent.loop import Loop
    from hango_runner.agent.ports import Journal
    from hango_runner.agent.state import Run, Suspension
    from hango_runner.postgres.queue import SqlQueue
    from hango_runner.use_cases.suspensions import Suspensions

log = logging.getLogger(__name__)

_POLL = 1.0


@dataclass(slots=True)
class _Held:
    """A run in a slot. Past `until` (monotonic) the lease cannot be trusted any more."""

    run: Run
    lane: str
    task: asyncio.Task[None]
    until: float


class Worker:
    """One process's share of the work. A paused run takes no slot, no task and no memory here."""

    def __init__(
        self,
        queue: SqlQueue,
        journal: Journal,
        loop: Loop,
        suspensions: Suspensions,
        open_payload: Callable[[Suspension], bytes],
        *,
        lanes: Mapping[str, int],
        lease: timedelta,
        metrics: Metrics,
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._loop = loop
        self._suspensions = suspensions
        self._open_payload = open_payload
        self._lanes = lanes
        self._lease = lease
        self._metrics = metrics
        self._held: dict[str, _Held] = {}
        self._leaving = False
        self._wakes = {lane: asyncio.Event() for lane in lanes}
        self._show_slots()

    def wake(self, lane: str) -> None:
        """There may be work in this lane; empty for any."""
        for name, event in self._wakes.items():
            if lane in ("", name):
                event.set()

    def busy(self, lane: str) -> int:
        """Slots of this lane that are taken."""
        return sum(held.lane == lane for held in self._held.values())

    async def run_lane(self, lane: str) -> None:
        """Claim and drive runs of this lane until told to leave."""
        wake = self._wakes[lane]
        while not self._leaving:
            wake.clear()
            free = self._lanes[lane] - self.busy(lane)
            claimed = await self._claim(lane, free) if free else 0
            if claimed and claimed == free:
                continue
            try:
                async with asyncio.timeout(_POLL):
                    await wake.wait()
            except TimeoutError:
                continue

    async def _claim(self, lane: str, free: int) -> int:
        started = clock.monotonic()
        try:
            runs = await self._queue.claim(lane, free, self._lease)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(_POLL)
            return 0
        for run in runs:
            task = asyncio.create_task(self._drive(run), name=f"run {run.id}")
            self._held[run.id] = _Held(run, lane, task, self._trusted_until(started))
            task.add_done_callback(partial(self._let_go, run))
        self._show_slots()
        return len(runs)

    def _let_go(self, run: Run, _task: asyncio.Task[None]) -> None:
        held = self._held.get(run.id)
        if held is not None and held.run is run:
            if self.busy(held.lane) >= self._lanes[held.lane]:
                self._wakes[held.lane].set()  # others may have been left in the queue
            del self._held[run.id]
        self._show_slots()

    def _trusted_until(self, started: float) -> float:
        ttl = self._lease.total_seconds()
        return started + ttl - min(5.0, ttl / 6)

    async def _drive(self, run: Run) -> None:
        trace.continue_from(run.traceparent)
        try:
            suspension = await self._loop.drive(run, lambda: self._leaving)
            if suspension is not None:
                payload = self._open_payload(suspension)
                await self._suspensions.open(run.tenant_id, run.id, payload)
        except LeaseLost:
            log.info("run is not ours any more", extra={"run_id": run.id})
        except Drained:
            await self._release(run)
        except (Unavailable, OutcomeUnknown) as error:
            # The database or A was away. What was committed stands; the reaper or the relay goes
            # on.
            log.warning("run interrupted", extra={"run_id": run.id, "error": error.reason})
        except asyncio.CancelledError:
            raise
        except (Exception, AwaitingApproval):
            # The latter: the run was queued though nobody has decided. Its call did not run.
            log.exception("run failed", extra={"run_id": run.id})
            await self._fail(run)

    async def _fail(self, run: Run) -> None:
        """A fault of ours must not be tried for ever: the run ends, and its log line says why."""
        end = Finished(
            False, reason=FailureReason.INTERNAL, message="the runner failed; its log says why"
        )
        try:
            await self._journal.ended(run, end)
        except (LeaseLost, HangoError):
            log.warning("the failure was not stored", extra={"run_id": run.id})

    async def _release(self, run: Run) -> None:
        try:
            await self._queue.release(run)
        except (Unavailable, OutcomeUnknown):
            log.warning("the run was not released; its lease ends it", extra={"run_id": run.id})

    async def renew(self) -> None:
        """Prolong the leases of what is held, every third of their life, for ever."""
        every = self._lease.total_seconds() / 3
        while True:
            await asyncio.sleep(every)
            held = list(self._held.values())
            started = clock.monotonic()
            if held:
                await self._renew(held, started)
            for h in held:
                if clock.monotonic() > h.until and not h.task.done():
                    log.warning("lease ran out", extra={"run_id": h.run.id})
                    h.task.cancel()

    async def _renew(self, held: list[_Held], started: float) -> None:
        try:
            ours = await self._queue.renew([h.run for h in held], self._lease)
        except (Unavailable, OutcomeUnknown):
            return
        for h in held:
            # One that is not ours any more runs out by itself: every step of it is fenced, and a
            # tool that is under way may still tell its result.
            if h.run.id in ours:
                h.until = self._trusted_until(started)

    async def leave(self, drain: float) -> None:
        """T10: claim and start nothing more, wait for what is under way, then let go."""
        self._leaving = True
        self.wake("")
        tasks = [h.task for h in self._held.values()]
        if not tasks:
            return
        runs = [h.run for h in self._held.values()]
        _, late = await asyncio.wait(tasks, timeout=drain)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=1)
        for run, task in zip(runs, tasks, strict=True):
            if task in late:
                await self._release(run)

    def _show_slots(self) -> None:
        for lane, slots in self._lanes.items():
            busy = self.busy(lane)
            self._metrics.lane_slots.labels(lane, "busy").set(busy)
            self._metrics.lane_slots.labels(lane, "free").set(slots - busy)
