"""The gateway told to stop: it answers what is under way, ends its streams, and is gone in time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hango_gateway.http.application import build
from hango_gateway.http.server import Server
from hango_platform.telemetry.metrics import Metrics

from tests.support.fake_owners import KEY, RUN, Edge, gateway
from tests.support.streams import streaming

if TYPE_CHECKING:
    from tests.support.backend import NatsServer

EVENTS = f"/v1/runs/{RUN}/events"


async def test_streams_end_and_waits_are_answered(nats_server: NatsServer) -> None:
    async with gateway(nats_server.url, drain="5s") as edge:
        reached = edge.owners.hang["GetRun"] = asyncio.Event()
        body = {"agent": "writer", "input": "hi"}
        waiting = asyncio.create_task(edge.ask("POST", "/v1/runs?wait=30s", json=body))
        async with streaming(edge, EVENTS) as run, streaming(edge, "/v1/events") as tenant:
            await asyncio.wait_for(reached.wait(), 5)
            begun = time.monotonic()
            closing = asyncio.create_task(edge.stack.aclose())
            assert await run.next() is None
            assert await tenant.next() is None
            answer = await waiting
            assert (answer.status_code, answer.json()["state"]) == (202, "queued")
            await closing
            assert time.monotonic() - begun < 2


async def test_it_says_so_while_it_stops() -> None:
    stopping, nobody = asyncio.Event(), Any
    app: Any = build(nobody, nobody, Metrics(), stopping)  # type: ignore[arg-type]  # not asked
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://gateway"
    ) as http:
        assert (await http.get("/readyz")).status_code == 200
        stopping.set()
        answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "stopping"})


async def _url(process: asyncio.subprocess.Process, ready: int) -> str:
    with os.fdopen(ready) as pipe:
        line = await asyncio.wait_for(asyncio.to_thread(pipe.readline), 20)
    found: str = json.loads(line)["http"]
    return found


async def test_sigterm_with_open_streams(running: Edge) -> None:
    """Case 37, of the gateway: as a process, with uvloop."""
    running.owners.reset()
    ready, to_write = os.pipe()
    environment = {
        **os.environ,
        "HANGO_INTERNAL_KEY": KEY,
        "HANGO_NATS_URL": "nats://127.0.0.1:1",  # it serves without a bus
        "HANGO_HTTP_ADDR": "127.0.0.1:0",
        "HANGO_APPROVALS_ADDR": running.approvals_addr,
        "HANGO_RUNNER_ADDR": running.runner_addr,
        "HANGO_DRAIN": "8s",
        "HANGO_READY_FD": str(to_write),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hango_gateway",
        env=environment,
        pass_fds=[to_write],
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(to_write)
    try:
        url = await _url(process, ready)
        async with httpx.AsyncClient(base_url=url, timeout=10) as http:
            there: Any = Edge(**{**running.__dict__, "http": http, "url": url})
            async with streaming(there, EVENTS) as run, streaming(there, "/v1/events") as tenant:
                begun = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert await run.next() is None
                assert await tenant.next() is None
        _, log = await asyncio.wait_for(process.communicate(), 8)
        assert process.returncode == 0
        assert time.monotonic() - begun < 3
        assert b"Traceback" not in log
        assert b"hk_" not in log
        assert all(json.loads(line)["service"] == "gateway" for line in log.splitlines())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_where_it_listens() -> None:
    server = Server(_hello, "[::1]:0", drain=1)
    assert server.url.startswith("http://[::1]:")
    server._socket.close()
    taken = Server(_hello, "127.0.0.1:0", drain=1)
    with pytest.raises(OSError, match="in use"):
        Server(_hello, taken.url.removeprefix("http://"), drain=1)
    taken._socket.close()


async def test_answers_do_not_wait_for_acknowledgements() -> None:
    server = Server(_hello, "127.0.0.1:0", drain=1)
    serving = asyncio.create_task(server.run_until_told())
    async with httpx.AsyncClient(base_url=server.url) as http:
        assert (await http.get("/")).text == "hello"
        (connection,) = server.server_state.connections
        plain = connection.transport.get_extra_info("socket")
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    server.should_exit = True
    await serving
