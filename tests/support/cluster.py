"""The services as real processes, started again when they die, with databases and a NATS of their
own: what faults are injected into.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hango_cli.embedded.ports import choose_port
from hango_platform.errors import Internal, OutcomeUnknown, Unavailable

from tests.support.stack import Stack, migrate_approvals, migrate_runner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from tests.support.backend import PostgresServer
    from tests.support.zygote import Process, Zygote

T = TypeVar("T")

LEASE = 2.0
"""Seconds that a worker that is not heard of keeps a run here."""

_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
]
_QUICK = {
    "HANGO_LEASE_TTL": f"{LEASE:g}s",
    "HANGO_DRAIN": "2s",
    "HANGO_APPROVAL_SWEEP_INTERVAL": "200ms",
    "HANGO_REAP_INTERVAL": "200ms",
    "HANGO_RECONCILE_INTERVAL": "500ms",
    "HANGO_ORPHAN_INTERVAL": "1s",
    "HANGO_LANES": "default:8",
}


@dataclass
class Cluster(Stack):
    """Three processes or four. `own` are variables by service; `fault` goes into a service's first
    start alone.
    """

    _: KW_ONLY
    zygote: Zygote
    folder: Path
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fault: Mapping[str, str] = field(default_factory=dict)
    http_addr: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    _keepers: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._approvals_channel = aio.insecure_channel(self.approvals_addr, options=_CHANNEL)
        self._runner_channel = aio.insecure_channel(self.runner_addr, options=_CHANNEL)

    async def boot(self, name: str, **more: str) -> Process:
        """Start a process of this service; returns when it is ready."""
        process = self.processes[name] = self.launch(name, **more)
        if name in ("approvals", "runner"):
            channel = self._approvals_channel if name == "approvals" else self._runner_channel
            await eventually(lambda: self._serves(channel, process), what=f"{name} serves")
        return process

    def launch(self, name: str, **more: str) -> Process:
        """Start one without waiting."""
        n = self.starts[name] = self.starts.get(name, 0) + 1
        environment = {**self._environment(name), **more}
        if n == 1 and name in self.fault:
            environment["HANGO_FAULT"] = self.fault[name]
        return self.zygote.fork(name, environment, self.folder / f"{name}-{n}.log")

    def _environment(self, name: str) -> dict[str, str]:
        known = {
            **_QUICK,
            "HANGO_INTERNAL_KEY": self.internal_key,
            "HANGO_NATS_URL": self.nats_url,
            "HANGO_APPROVALS_ADDR": self.approvals_addr,
            "HANGO_RUNNER_ADDR": self.runner_addr,
            "HANGO_HTTP_ADDR": self.http_addr,
        }
        if name == "approvals":
            known["HANGO_APPROVALS_DSN"] = self.approvals_dsn
        if name == "runner":
            known["HANGO_RUNNER_DSN"] = self.runner_dsn
            if self.tool_servers is not None:
                known["HANGO_TOOL_SERVERS"] = str(self.tool_servers)
        return known | dict(self.own.get(name, {}))

    async def _serves(self, channel: Any, process: Process) -> bool:
        assert process.alive, "\n".join(process.lines()[-5:])
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def keep(self, name: str) -> None:
        """From now on start this service again when it has died; one that hangs at its fault is
        killed first.
        """
        self._keepers[name] = asyncio.create_task(self._keep(name), name=f"keep {name}")

    async def _keep(self, name: str) -> None:
        while True:
            process = self.processes[name]
            while process.alive:
                try:
                    async with asyncio.timeout(0.05):
                        await process.ended()
                except TimeoutError:
                    if "hang" in self.reached(name):
                        await process.kill()
            await self.boot(name)

    def forget(self, name: str) -> None:
        """Keep this service no more."""
        self._keepers.pop(name).cancel()

    def reached(self, name: str) -> list[str]:
        """The kinds of the faults that the running process of this service has come to."""
        return [line["kind"] for line in self.said(self.processes[name], "fault")]

    def said(self, process: Process, message: str) -> list[dict[str, Any]]:
        """The log lines with this message."""
        lines = (json.loads(x) for x in process.lines() if x.startswith("{"))
        return [line for line in lines if line["message"] == message]

    def faults_reached(self, name: str) -> int:
        """How often the first process of this service came to its fault."""
        log = (self.folder / f"{name}-1.log").read_text()
        return sum(json.loads(x)["message"] == "fault" for x in log.splitlines() if x[:1] == "{")

    async def close(self) -> None:
        """End every process, as a crash would."""
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for process in self.processes.values():
            await process.kill()
        await super().close()


async def patiently(
    call: Callable[[], Awaitable[T]],
    *,
    timeout: float = 20.0,
    until: Callable[[T], bool] = lambda _: True,
) -> T:
    """The first answer that is as wanted, from services that may be away for a while."""

    async def attempt() -> tuple[T] | None:
        try:
            answer = await call()
        except (Unavailable, OutcomeUnknown, Internal):
            await asyncio.sleep(0.05)
            return None
        if not until(answer):
            await asyncio.sleep(0.03)
            return None
        return (answer,)

    return (await eventually(attempt, timeout=timeout, what="an answer that is as wanted"))[0]


@asynccontextmanager
async def running_cluster(
    postgres: PostgresServer,
    nats_url: str,
    zygote: Zygote,
    folder: Path,
    *,
    services: tuple[str, ...] = ("approvals", "runner", "sweeper"),
    keep: bool = True,
    **more: Any,
) -> AsyncIterator[Cluster]:
    """A cluster, with its demo tenants if A is in it; all of it gone afterwards."""
    cluster = Cluster(
        approvals_dsn=await postgres.database_from_template("approvals", migrate_approvals),
        runner_dsn=await postgres.database_from_template("runner", migrate_runner),
        nats_url=nats_url,
        internal_key=secrets.token_hex(32),
        approvals_addr=f"127.0.0.1:{choose_port()}",
        runner_addr=f"127.0.0.1:{choose_port()}",
        http_addr=f"127.0.0.1:{choose_port()}",
        tool_servers=more.pop("tool_servers", None),
        overrides={},
        zygote=zygote,
        folder=folder,
        **more,
    )
    try:
        await asyncio.gather(*(cluster.boot(name) for name in services))
        if "approvals" in services:
            await cluster.provision()
        for name in services if keep else ():
            cluster.keep(name)
        yield cluster
    finally:
        await cluster.close()
        await postgres.drop_database(cluster.approvals_dsn)
        await postgres.drop_database(cluster.runner_dsn)
