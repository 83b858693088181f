"""The cycle: start a run that stops at a gated call, approve, wait for its end; each checked."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import asyncpg
import uvloop
from grpc import aio
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc

from bench.stack import running

AGENT = {
    "name": "bench",
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "tool_calls": [
                    {
                        "id": "c1",
                        "name": "write_file",
                        "arguments": {"path": "/refund.txt", "content": "25 EUR, damaged"},
                    }
                ]
            },
            {"text": "done"},
        ],
    },
    "interrupt_on": {"write_file": True},
}


class Driver:
    """One user's connections to both services."""

    def __init__(self, ready: dict[str, Any], user: str = "admin") -> None:
        self._metadata = (("authorization", f"Bearer {ready['credentials'][user]}"),)
        self._channels = [aio.insecure_channel(ready["grpc"][s]) for s in ("approvals", "runner")]
        self._approvals = agrpc.ApprovalsServiceStub(self._channels[0])
        self._runs = rgrpc.RunsServiceStub(self._channels[1])
        self._agents = rgrpc.AgentsServiceStub(self._channels[1])

    async def save(self, spec: dict[str, Any]) -> None:
        """Save an agent."""
        request = rpb.SaveAgentRequest(name=spec["name"], spec_json=json.dumps(spec).encode())
        await self._agents.SaveAgent(request, metadata=self._metadata)

    async def cycle(self) -> tuple[str, float, float, float]:
        """One run; its id, and seconds to the pause, of the decide, and from it to the end."""
        t0 = time.monotonic()
        request = rpb.StartRunRequest(agent="bench", input_json=b'"refund"')
        request.wait.seconds = 30
        run = (await self._runs.StartRun(request, metadata=self._metadata, timeout=40)).run
        t1 = time.monotonic()
        assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL, run.state
        decision = apb.Decision(tool_call_id="c1", decision=types_pb2.DECISION_KIND_APPROVE)
        await self._approvals.DecideApprovals(
            apb.DecideApprovalsRequest(run_id=run.id, decisions=[decision]),
            metadata=self._metadata,
            timeout=20,
        )
        t2 = time.monotonic()
        wait = rpb.GetRunRequest(run_id=run.id)
        wait.wait.seconds = 30
        run = (await self._runs.GetRun(wait, metadata=self._metadata, timeout=40)).run
        assert run.state == types_pb2.RUN_STATE_SUCCEEDED, run
        return run.id, t1 - t0, t2 - t1, time.monotonic() - t2

    async def close(self) -> None:
        """Hang up."""
        for channel in self._channels:
            await channel.close()


async def load(driver: Driver, concurrency: int, seconds: float, warmup: float) -> dict[str, Any]:
    """Closed loop; cycles that end inside the window count. Checked later by `not_once`."""
    opened = time.monotonic() + warmup
    closed = opened + seconds
    samples: list[tuple[float, float, float]] = []
    runs: list[str] = []

    async def client() -> None:
        while time.monotonic() < closed:
            run_id, *times = await driver.cycle()
            runs.append(run_id)
            if opened <= time.monotonic() < closed:
                samples.append((times[0], times[1], times[2]))

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return {"c": concurrency, "rate": len(samples) / seconds, "samples": samples, "runs": runs}


async def not_once(ready: dict[str, Any], runs: list[str]) -> int:
    """How many of these runs did not execute their tool exactly once, by the files it wrote."""
    connection = await asyncpg.connect(ready["postgres"]["runner"])
    try:
        await connection.execute("SET ROLE hango_system")
        rows = await connection.fetch(
            "SELECT run_id, count(*) AS n FROM tool_calls"
            " WHERE exec_state = 'succeeded' AND decision = 'approve' GROUP BY run_id"
        )
    finally:
        await connection.close()
    executed = {str(r["run_id"]): r["n"] for r in rows}
    return sum(executed.get(run) != 1 for run in runs)


async def _measure(concurrencies: list[int], seconds: float) -> list[dict[str, Any]]:
    cells = []
    with running() as ready:
        driver = Driver(ready)
        await driver.save(AGENT)
        for concurrency in concurrencies:
            cell = await load(driver, concurrency, seconds, warmup=1.5)
            cell["not_once"] = await not_once(ready, cell.pop("runs"))
            cells.append(cell)
        await driver.close()
    return cells


def measure(concurrencies: list[int], seconds: float) -> list[dict[str, Any]]:
    """A fresh stack, one cell per concurrency."""
    return uvloop.run(_measure(concurrencies, seconds))
