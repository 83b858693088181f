"""One storm: a stack, load, harm, calm, and the reckoning."""

from __future__ import annotations

import asyncio
import random
import secrets
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg

from tests.chaos.history import OVER, Facts, Verdict, check
from tests.chaos.load import Load
from tests.chaos.monkey import Monkey
from tests.chaos.stack import APPROVAL_TTL, ENVIRONMENT, LEASE, ChaosUp, rows

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from pathlib import Path

SETTLE = 60.0 + APPROVAL_TTL
"""Seconds after the last harm within which every run must be over."""

_RESUMED = """
SELECT extract(epoch FROM at) AS at, data->>'suspension_id' AS suspension
  FROM run_events WHERE type = 'run.resumed' AND run_id = ANY ($1::uuid[])
"""
_GAPS = """
SELECT extract(epoch FROM next - at) AS s FROM (
    SELECT type, at, lead(at) OVER (PARTITION BY run_id ORDER BY seq) AS next FROM run_events
) e WHERE type = 'run.resumed' AND next IS NOT NULL
"""


@dataclass
class Report:
    """What a storm came to."""

    seed: int
    seconds: float
    verdict: Verdict
    harm: Counter[str]
    decide: list[float] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)
    driven: list[float] = field(default_factory=list)

    def text(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}, {self.seconds:.0f} s", ""]
        lines += [f"{n:>8}  {what}" for what, n in self.verdict.counts.items()]
        lines += ["", *(f"{n:>8}  {what}" for what, n in sorted(self.harm.items())), ""]
        for name, values in (
            ("decide answered, as the client sees it", self.decide),
            ("decided -> queued", self.queued),
            ("queued -> driven on", self.driven),
        ):
            lines.append(f"{name}: {spread(values)}")
        lines += ["", *(f"{n:>8}  {what}" for what, n in self.verdict.faults.items())]
        lines += [f"  {what}: {e}" for what, e in self.verdict.examples.items()]
        return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """Median, 99th percentile and most, in milliseconds."""
    if len(values) < 2:
        return "too few"
    cuts = statistics.quantiles(values, n=100)
    return (
        f"p50 {1000 * cuts[49]:.1f} ms, p99 {1000 * cuts[98]:.0f} ms,"
        f" most {1000 * max(values):.0f} ms ({len(values)})"
    )


async def rage(
    folder: Path,
    *,
    seconds: float,
    people: int = 24,
    seed: int | None = None,
    calm: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run one storm; what it came to. Everything it started has ended when it returns."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    tell(f"seed {seed}")
    up = ChaosUp(folder, environment=ENVIRONMENT)
    try:
        ready = up.start()
        load = Load(ready, people, random.Random(seed))
        monkey = Monkey(up, random.Random(seed + 1))
        await load.prepare()
        until = time.monotonic() + seconds
        work = [load.run(until), _say(load, until, tell)]
        if not calm:
            work.append(monkey.run(until))
        await asyncio.gather(*work)
        tell("the storm is over; waiting for every run to end")
        await settled(up, tell)
        facts = await Facts.read(up)
        report = Report(seed, seconds, check(facts, load.history), monkey.done)
        report.verdict.note("broken audit chains", await _broken_chains(load))
        report.decide = [a.seconds for a in load.history.attempts if a.status == 200]
        report.queued = await queued(up, facts, load.history.runs)
        report.driven = [float(r["s"]) for r in await rows(up.dsn("runner"), _GAPS)]
        await load.close()
    finally:
        up.close()
    return report


async def _say(load: Load, until: float, tell: Callable[[str], None]) -> None:
    while time.monotonic() < until:
        await asyncio.sleep(min(15, max(until - time.monotonic(), 0)))
        tell(f"{len(load.history.runs)} runs, {load.history.retries} repeats")


async def settled(up: ChaosUp, tell: Callable[[str], None]) -> None:
    """Wait until every run is over and everything is told, or patience has run out."""
    until = time.monotonic() + SETTLE + LEASE
    a, r = up.dsn("approvals"), up.dsn("runner")
    live = f"SELECT count(*) AS n FROM runs WHERE state NOT IN {OVER}"
    started = "SELECT count(*) AS n FROM tool_calls WHERE exec_state = 'started'"
    untold = "SELECT count(*) AS n FROM outbox WHERE published_at IS NULL"
    left = -1
    while time.monotonic() < until:
        try:
            asked = [(r, live), (r, started), (r, untold), (a, untold)]
            left = sum([(await rows(dsn, statement))[0]["n"] for dsn, statement in asked])
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            left = -1
        if not left:
            return
        await asyncio.sleep(0.5)
    tell(f"not all has settled: {left} left")


async def queued(up: ChaosUp, facts: Facts, runs: Sequence[str]) -> list[float]:
    """Seconds from each decision on these runs to its run's being queued, by the databases' one
    clock.
    """
    resumed = await rows(up.dsn("runner"), _RESUMED, runs)
    decided = {
        str(p["suspension_id"]): p["closed_at"].timestamp()
        for p in facts.approvals.values()
        if p["state"] == "decided"
    }
    return [float(x["at"]) - decided[x["suspension"]] for x in resumed]


async def _broken_chains(load: Load) -> list[object]:
    answer = await load.verify()
    return [] if answer["ok"] else answer["problems"]
