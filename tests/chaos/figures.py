"""The figures of issue 8 that need a whole stack, each measured alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from tests.chaos import storm
from tests.chaos.history import Facts, check
from tests.chaos.load import Load, Person
from tests.chaos.stack import ENVIRONMENT, LEASE, ChaosUp, rows
from tests.support.scripts import call, turn
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

MANY = 10_000
STREAMS = 200
_LONG_TTL = {"HANGO_APPROVAL_TTL": "1h"}

_BACKLOG = """
INSERT INTO outbox (id, tenant_id, kind, key, payload, traceparent, leased_until)
SELECT gen_random_uuid(), o.tenant_id, o.kind, o.key, o.payload, '', clock_timestamp()
  FROM (SELECT * FROM outbox WHERE kind = 'nats' LIMIT 1) o, generate_series(1, $1)
"""
_DUE = """
WITH made AS (
    INSERT INTO suspensions SELECT (jsonb_populate_record(s, jsonb_build_object(
        'id', gen_random_uuid(), 'run_id', gen_random_uuid(),
        'expires_at', clock_timestamp() - interval '1 second'))).*
      FROM suspensions s, generate_series(1, $1)
     WHERE s.id = (SELECT id FROM suspensions WHERE state = 'pending' LIMIT 1)
    RETURNING id, run_id
)
INSERT INTO pending_approvals SELECT (jsonb_populate_record(p, jsonb_build_object(
    'id', gen_random_uuid(), 'suspension_id', made.id, 'run_id', made.run_id))).*
  FROM pending_approvals p, made
 WHERE p.id = (SELECT id FROM pending_approvals WHERE state = 'pending' LIMIT 1)
"""


@dataclass
class Figure:
    """One number, what it may be at most, and what it is of."""

    name: str
    value: float
    at_most: float
    unit: str
    note: str = ""

    def line(self) -> str:
        """For people."""
        mark = "ok  " if self.value <= self.at_most else "MISS"
        return (
            f"{mark} {self.name}: {self.value:.3g} {self.unit}"
            f" (at most {self.at_most:g}){'; ' if self.note else ''}{self.note}"
        )


async def measure(folder: Path, tell: Callable[[str], None]) -> list[Figure]:
    """All of them, on one stack; the last figure ends it."""
    up = ChaosUp(folder, environment={**ENVIRONMENT, **_LONG_TTL})
    found: list[Figure] = []
    try:
        up.start()
        for part in (
            _calm,
            _without_nats,
            _postgres_restarted,
            _backlog,
            _due,
            _lost_leases,
            _sigterm,
        ):
            for figure in await part(up):
                tell(figure.line())
                found.append(figure)
    finally:
        up.close()
    return found


def _ready(up: ChaosUp) -> dict[str, Any]:
    ready = up.ready()
    assert ready is not None
    return ready


async def _under_load(
    up: ChaosUp, people: int, seconds: float, then: Callable[[], Awaitable[None]] | None = None
) -> tuple[Load, list[float]]:
    """The load for a while, with something happening meanwhile: decided -> queued of its runs."""
    load = Load(_ready(up), people, random.Random(1), calm=True)
    await load.prepare()
    work = [asyncio.create_task(load.run(time.monotonic() + seconds))]
    if then is not None:
        work.append(asyncio.create_task(then()))  # type: ignore[arg-type]
    await asyncio.gather(*work)
    await storm.settled(up, lambda _: None)
    facts = await Facts.read(up)
    queued = await storm.queued(up, facts, load.history.runs)
    verdict = check(facts, load.history)
    assert verdict.ok, (verdict.faults, verdict.examples)
    await load.close()
    return load, sorted(queued)


def _at(values: list[float], share: float) -> float:
    return 1000 * values[min(int(share * len(values)), len(values) - 1)]


async def _calm(up: ChaosUp) -> list[Figure]:
    _, queued = await _under_load(up, 2, 20)
    note = f"{len(queued)} decides, two people"
    return [
        Figure("decide -> queued, p50", _at(queued, 0.5), 10, "ms", note),
        Figure("decide -> queued, p99", _at(queued, 0.99), 100, "ms", note),
    ]


async def _without_nats(up: ChaosUp) -> list[Figure]:
    """The broker frozen: connections stay, and nothing is answered."""
    pid = _ready(up)["pids"]["nats"]
    os.kill(pid, signal.SIGSTOP)
    try:
        load, queued = await _under_load(up, 4, 20)
    finally:
        os.kill(pid, signal.SIGCONT)
    errors = load.history.retries + sum(load.history.surprises.values())
    return [
        Figure("NATS stopped: decide -> queued, p99", _at(queued, 0.99) / 1000, 6, "s"),
        Figure("NATS stopped: errors to clients", errors, 0, ""),
    ]


async def _postgres_restarted(up: ChaosUp) -> list[Figure]:
    """kill -9 of the postmaster under load. What was acknowledged is checked by the history."""
    took = [0.0]

    async def restart() -> None:
        await asyncio.sleep(5)
        before = _ready(up)["pids"]["postgres"]
        os.kill(before, signal.SIGKILL)

        async def another() -> bool:
            return bool(_ready(up)["pids"]["postgres"] != before)

        await eventually(another, timeout=60, what="another postgres")
        begun = time.monotonic()
        ready = _ready(up)
        history = Load(ready, 1, random.Random(2)).history
        person = Person(ready["http"], ready["credentials"]["member"], history)
        answer = await person.ask("POST", "/v1/runs", {"agent": "once", "input": "go"})
        took[0] = time.monotonic() - begun
        assert answer is not None
        assert answer.status_code == 202
        await person.close()

    load, _ = await _under_load(up, 4, 20, restart)
    acknowledged = sum(a.status == 200 for a in load.history.attempts)
    return [
        Figure("PostgreSQL restarted: serving after", took[0], 10, "s"),
        Figure("acknowledged decisions lost", 0, 0, "", f"of {acknowledged}, checked one by one"),
    ]


async def _until(up: ChaosUp, statement: str) -> float:
    begun = time.monotonic()

    async def none() -> bool:
        await asyncio.sleep(0.1)
        return not (await rows(up.dsn("approvals"), statement))[0]["n"]

    await eventually(none, timeout=300, what="none left")
    return time.monotonic() - begun


async def _backlog(up: ChaosUp) -> list[Figure]:
    approvals = psutil.Process(_ready(up)["pids"]["approvals"])
    before = approvals.memory_info().rss
    await rows(up.dsn("approvals"), _BACKLOG, MANY)
    took = await _until(up, "SELECT count(*) AS n FROM outbox WHERE published_at IS NULL")
    grown = (approvals.memory_info().rss - before) / 2**20
    return [
        Figure(f"outbox backlog of {MANY} drained", took, 60, "s"),
        Figure("memory grown by it", grown, 20, "MiB"),
    ]


async def _due(up: ChaosUp) -> list[Figure]:
    ready = _ready(up)
    person = Person(
        ready["http"], ready["credentials"]["member"], Load(ready, 1, random.Random()).history
    )
    await person.ask("POST", "/v1/runs", {"agent": "once", "input": "go"}, wait="10s")
    await person.close()
    await rows(up.dsn("approvals"), _DUE, MANY)
    # As autovacuum does within a minute: nobody gets ten thousand approvals in a second.
    await rows(up.dsn("approvals"), "ANALYZE suspensions, pending_approvals")
    took = await _until(
        up,
        "SELECT count(*) AS n FROM suspensions"
        " WHERE state = 'pending' AND expires_at < clock_timestamp()",
    )
    return [Figure(f"{MANY} due approvals expired", took, 30, "s")]


async def _lost_leases(up: ChaosUp) -> list[Figure]:
    """kill -9 of the runner while ten runs wait for their model."""
    delay = 1.0
    spec = {
        "name": "slow",
        "model": {
            "provider": "scripted",
            "turns": [turn(call("c1", "count__look", item="s"), delay_ms=int(1000 * delay))],
        },
        "tools": ["*"],
    }
    ready = _ready(up)
    history = Load(ready, 1, random.Random()).history
    admin = Person(ready["http"], ready["credentials"]["admin"], history)
    await admin.ask("PUT", "/v1/agents/slow", spec)
    started = []
    for _ in range(10):
        answer = await admin.ask("POST", "/v1/runs", {"agent": "slow", "input": "go"})
        assert answer is not None
        started.append(answer.json()["id"])
    held = "SELECT count(*) AS n FROM runs WHERE id = ANY ($1::uuid[]) AND state = 'running'"

    async def all_held() -> bool:
        return bool((await rows(up.dsn("runner"), held, started))[0]["n"] == 10)

    await eventually(all_held, what="all are being driven")
    (now,) = await rows(up.dsn("runner"), "SELECT clock_timestamp() AS at")
    os.kill(ready["pids"]["runner"], signal.SIGKILL)
    await admin.close()
    over = "SELECT count(*) AS n FROM runs WHERE id = ANY ($1::uuid[]) AND state = 'succeeded'"

    async def all_over() -> bool:
        return bool((await rows(up.dsn("runner"), over, started))[0]["n"] == 10)

    await eventually(all_over, timeout=60, what="all end")
    told = await rows(
        up.dsn("runner"),
        "SELECT extract(epoch FROM min(at) - $2) AS s FROM run_events"
        " WHERE run_id = ANY ($1::uuid[]) AND type = 'tool.started' GROUP BY run_id",
        started,
        now["at"],
    )
    most = max(float(r["s"]) for r in told) - delay
    return [Figure("lease lost -> driven on, the slowest of 10", most, LEASE + 2, "s")]


async def _sigterm(up: ChaosUp) -> list[Figure]:
    """SIGTERM of it all with streams open and requests waiting."""
    ready = _ready(up)
    headers = {"authorization": f"Bearer {ready['credentials']['owner']}"}
    limits = httpx.Limits(max_connections=2 * STREAMS)
    async with httpx.AsyncClient(
        base_url=ready["http"], headers=headers, timeout=30, limits=limits
    ) as client:
        answer = await client.post("/v1/runs?wait=5s", json={"agent": "once", "input": "go"})
        run_id = answer.json()["id"]
        opened: asyncio.Queue[int] = asyncio.Queue()

        async def stream() -> None:
            with contextlib.suppress(httpx.HTTPError):
                async with client.stream("GET", f"/v1/runs/{run_id}/events") as answer:
                    opened.put_nowait(answer.status_code)
                    async for _ in answer.aiter_bytes():
                        pass

        streams = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        statuses = Counter([await opened.get() for _ in range(STREAMS)])
        assert statuses == {200: STREAMS}
        calls = [
            asyncio.create_task(
                client.post("/v1/runs?wait=20s", json={"agent": "slow", "input": "go"})
            )
            for _ in range(20)
        ]
        queued = "SELECT count(*) AS n FROM runs WHERE agent = 'slow'"

        async def all_queued() -> bool:
            return bool((await rows(up.dsn("runner"), queued))[0]["n"] == 30)

        await eventually(all_queued, what="all requests are under way")
        assert up.process is not None
        begun = time.monotonic()
        up.process.send_signal(signal.SIGTERM)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.to_thread(up.process.wait, 30)
        took = time.monotonic() - begun
        await asyncio.gather(*streams)
    failed = [e for e in ends if isinstance(e, BaseException) or e.status_code != 202]
    note = json.dumps(Counter(str(e) for e in failed)) if failed else ""
    return [
        Figure(f"SIGTERM with {STREAMS} streams", took, 10, "s"),
        Figure("unary calls in flight that failed", len(failed), 0, "of 20", note),
    ]
