"""What it means to sweep: on an interval, until nothing is left, and again after a failure."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.errors import HangoError
from hango_platform.ids import jitter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango_platform.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

LIMIT = 100
_FIRST = 1.0  # an hourly sweep does not wait an hour after a start
_RETRIES = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Sweep:
    """`work(limit)` does at most `limit` things of one kind, each at most once however many
    sweepers there are, and tells how many it did. Raises HangoError.
    """

    name: str
    interval: float
    "Seconds from the end of a round to the next."
    work: Callable[[int], Awaitable[int]]

    async def round(self) -> int:
        """Work until less than the limit is left; how much was done. Raises HangoError."""
        total = 0
        while True:
            done = await self.work(LIMIT)
            total += done
            if done and faults.ACTIVE:
                await faults.reach("after_sweep")
            if done < LIMIT:
                return total


async def keep(sweep: Sweep, metrics: Metrics) -> None:
    """Sweep for ever. After a failure the next try comes soon, then less soon, up to 5 seconds."""
    failures = 0
    await asyncio.sleep(min(sweep.interval, _FIRST) * jitter())
    while True:
        try:
            done = await sweep.round()
        except HangoError as error:
            failures += 1
            metrics.sweeps.labels(sweep.name, "failed").inc()
            log.warning(
                "sweep failed",
                extra={"sweep": sweep.name, "reason": error.reason, "failures": failures},
            )
        else:
            failures = 0
            metrics.sweeps.labels(sweep.name, "ok").inc()
            if done:
                log.info("swept", extra={"sweep": sweep.name, "done": done})
        await asyncio.sleep(pause(sweep.interval, failures))


def pause(interval: float, failures: int) -> float:
    """Seconds to the next round, after this many failures in a row."""
    if not failures:
        return interval
    return _RETRIES[min(failures, len(_RETRIES)) - 1] * jitter()
