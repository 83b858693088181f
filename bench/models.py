"""Runs on slow models in one runner process, long conversations, and what importing the SDK costs.

The lag of the runner's event loop is taken from outside, as the time that a health check takes in a
process of its own: that is never less than the lag itself.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from grpc import StatusCode, aio
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc

from bench.cycle import Driver
from bench.stack import running

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 64
DELAY = 1.0
"""Seconds that the slow model takes."""
CLIENTS = 3 * SLOTS // 2
POOL = 32


def measure(seconds: float) -> dict[str, Any]:
    """Rates, latencies and ratios, by name."""
    found: dict[str, Any] = {"import": _import_time()}
    with _stack(DELAY) as ready, _probed(ready["grpc"]["runner"]) as lags:
        found |= uvloop.run(_slow_models(ready, seconds))
    inside = sorted(lag for at, lag in lags if found["opened"] <= at < found["closed"])
    found["lag"] = inside[int(len(inside) * 0.99)]
    with _stack(0) as ready:
        found |= uvloop.run(_long_conversations(ready))
    return found


@contextmanager
def _stack(delay: float) -> Iterator[dict[str, Any]]:
    """A hango whose endpoint `slow` is a model server with this delay."""
    command = [sys.executable, "-m", "bench.slow_model"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "DELAY": str(delay)}
    )
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="hango-bench-models-") as folder:
        endpoints = Path(folder) / "endpoints.toml"
        port = server.stdout.readline().strip()
        endpoints.write_text(f'[slow]\nbase_url = "http://127.0.0.1:{port}/v1"\n')
        os.environ |= {
            "HANGO_MODEL_ENDPOINTS": str(endpoints),
            "HANGO_LANES": f"default:{SLOTS}",
            "HANGO_RUNNER_POOL": str(POOL),
        }
        try:
            with running() as ready:
                yield ready
        finally:
            server.terminate()
            server.wait(10)


@contextmanager
def _probed(address: str) -> Iterator[list[tuple[float, float]]]:
    """When each health check began, and its seconds; filled at the end of the block."""
    found: list[tuple[float, float]] = []
    command = [sys.executable, "-m", "bench.probe", address]
    probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield found
    finally:
        told, _ = probe.communicate(timeout=20)
        found += [(float(at), float(lag)) for at, lag in map(str.split, told.splitlines())]


class _User(Driver):
    """Starts runs on the slow model."""

    def __init__(self, ready: dict[str, Any]) -> None:
        super().__init__(ready)
        metadata = (("authorization", f"Bearer {ready['credentials']['admin']}"),)
        self._call: Any = {"metadata": metadata, "timeout": 120.0}
        self._more = [aio.insecure_channel(ready["grpc"][s]) for s in ("approvals", "runner")]
        self._deciding = agrpc.ApprovalsServiceStub(self._more[0])
        self._running = rgrpc.RunsServiceStub(self._more[1])

    async def begin(self) -> None:
        """Save the agent, and have the runner load the providers' libraries."""
        spec = {"name": "slow", "model": "slow:m", "interrupt_on": {"write_file": True}}
        await self.save(spec)
        await self.run("say")

    async def run(self, text: str, thread: str | None = None) -> Any:
        """One run to its pause or end."""
        request = rpb.StartRunRequest(
            agent="slow", input_json=f'"{text}"'.encode(), thread_id=thread
        )
        request.wait.seconds = 60
        return (await self._running.StartRun(request, **self._call)).run

    async def decided(self, thread: str) -> float:
        """A cycle on a thread; its seconds."""
        began = time.monotonic()
        run = await self.run("do", thread)
        assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL, run
        decision = apb.Decision(tool_call_id="", decision=types_pb2.DECISION_KIND_APPROVE)
        listed = await self._deciding.ListApprovals(
            apb.ListApprovalsRequest(
                run_id=run.id, state=types_pb2.APPROVAL_STATE_PENDING, page_size=10
            ),
            **self._call,
        )
        decision.approval_id = listed.approvals[0].id
        request = apb.DecideApprovalsRequest(run_id=run.id, decisions=[decision])
        await self._deciding.DecideApprovals(request, **self._call)
        wait = rpb.GetRunRequest(run_id=run.id)
        wait.wait.seconds = 60
        run = (await self._running.GetRun(wait, **self._call)).run
        assert run.state == types_pb2.RUN_STATE_SUCCEEDED, run
        return time.monotonic() - began

    async def close(self) -> None:
        """Hang up."""
        for channel in self._more:
            await channel.close()
        await super().close()


async def _slow_models(ready: dict[str, Any], seconds: float) -> dict[str, Any]:
    user = _User(ready)
    await user.begin()
    opened = time.monotonic() + 2 * DELAY
    closed = opened + seconds
    finished = refused = 0

    async def client(place: int) -> None:
        nonlocal finished, refused
        await asyncio.sleep(DELAY * place / SLOTS)  # or all would finish at the same moment
        while time.monotonic() < closed:
            try:
                run = await user.run("say")
            except aio.AioRpcError as error:
                if error.code() is not StatusCode.UNAVAILABLE:
                    raise
                refused += 1
                await asyncio.sleep(DELAY)  # as Retry-After says
                continue
            assert run.state == types_pb2.RUN_STATE_SUCCEEDED, run
            finished += opened <= time.monotonic() < closed

    await asyncio.gather(*(client(n) for n in range(CLIENTS)))
    await user.close()
    return {"rate": finished / seconds, "opened": opened, "closed": closed, "refused": refused}


async def _long_conversations(ready: dict[str, Any]) -> dict[str, Any]:
    """Cycles at the end of 10 and of 1,000 messages, in turn."""
    user = _User(ready)
    await user.begin()
    for thread, messages in (("short", 10), ("long", 1000)):
        for _ in range(messages // 2):
            await user.run("say", thread)
    times: dict[str, list[float]] = {"short": [], "long": []}
    for _ in range(10):
        for thread, taken in times.items():
            taken.append(await user.decided(thread))
    await user.close()
    return {name: statistics.median(taken) for name, taken in times.items()}


def _import_time() -> float:
    """Seconds of `from hango import Hango` above those of an interpreter that does nothing."""

    def best(statement: str) -> float:
        taken = []
        for _ in range(5):
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", statement], check=True)
            taken.append(time.monotonic() - began)
        return min(taken)

    return best("from hango import Hango") - best("")
