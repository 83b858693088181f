"""The composition root: the gateway's parts list."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hango_platform.bus import subjects
from hango_platform.bus.jetstream import Bus
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.credentials import CachedCredentials
from hango_platform.rpc.tls import Tls
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry.metrics import Metrics

from hango_gateway.http.application import build
from hango_gateway.http.edge import Edge
from hango_gateway.http.server import Server
from hango_gateway.owners import Owners

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack

    from hango_platform.lifecycle import Tasks

    from hango_gateway.settings import Settings


async def start(settings: Settings, stack: AsyncExitStack, tasks: Tasks) -> Mapping[str, Any]:
    """Build and start the gateway; the addresses it is bound to."""
    metrics = Metrics()
    internal = Tokens(settings.internal_key.get_secret_value(), "gateway")
    tls = Tls.of(settings)
    approvals = Channel(settings.approvals_addr, internal, tls)
    stack.push_async_callback(approvals.close)
    runner = Channel(settings.runner_addr, internal, tls)
    stack.push_async_callback(runner.close)
    owners = Owners(approvals, runner)
    stopping = asyncio.Event()
    app = build(owners, CachedCredentials(owners.authenticate), metrics, stopping)

    runs, tenants = app.state.run_streams, app.state.tenant_streams
    bus = Bus(settings.nats_url.get_secret_value(), "hango-gateway")
    await bus.subscribe(subjects.run_wake("*"), runs.hear)
    await bus.subscribe(subjects.run_delta("*"), runs.hear_delta)
    await bus.subscribe(subjects.STREAM_SUBJECTS, tenants.hear)
    bus.on_connect(tenants.connected)
    tasks.spawn(bus.run(), "bus")

    server = Server(Edge(app, metrics), settings.http_addr, drain=settings.drain.total_seconds())
    serving = tasks.spawn(server.run_until_told(), "http")

    async def leave() -> None:
        stopping.set()
        runs.stop()
        tenants.stop()
        server.should_exit = True
        await serving

    stack.push_async_callback(leave)
    return {"http": server.url, "metrics": metrics.serve(settings.metrics_addr)}
