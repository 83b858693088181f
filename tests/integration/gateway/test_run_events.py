"""The story of a run as server-sent events."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hango.runs.v1 import runs_pb2 as rpb
from hango_gateway.http import events as events_module
from hango_platform.bus import subjects

from tests.support.fake_owners import (
    RUN,
    UNKNOWN,
    Edge,
    at,
    gateway,
    serve_approvals,
    serve_runner,
)
from tests.support.streams import metric, streaming
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from hango_platform.bus.jetstream import Bus

    from tests.support.backend import NatsServer

PATH = f"/v1/runs/{RUN}/events"


async def no_task_left() -> bool:
    """None that answers a request."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return not any("EventSourceResponse" in n or "run_asgi" in n for n in names)


async def none_open(edge: Edge) -> bool:
    return await metric(edge, 'hango_streams{kind="run"}') == 0


async def test_replay_then_live_then_the_end(edge: Edge, bus: Bus) -> None:
    edge.owners.tell("run.queued", run_id=RUN)
    edge.owners.tell("run.started", run_id=RUN)
    async with streaming(edge, PATH) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert await stream.next() == {
            "id": "1",
            "event": "run.queued",
            "data": json.dumps({"run_id": RUN}),
        }
        assert await stream.numbers(1) == [2]
        edge.owners.tell("run.finished", run_id=RUN, state="succeeded")
        bus.hint(subjects.run_wake(RUN))
        last = await stream.next()
        assert last is not None
        assert (last["id"], last["event"]) == ("3", "run.finished")
        assert await stream.next() is None


async def test_a_wake_up_shows_at_once(edge: Edge, bus: Bus) -> None:
    async with streaming(edge, PATH) as stream:
        for number in range(1, 6):
            edge.owners.tell("message.created", run_id=RUN)
            bus.hint(subjects.run_wake(RUN))
            found = await stream.next(timeout=1.5)  # less than a tick
            assert found is not None
            assert found["id"] == str(number)


async def test_what_the_model_says_comes_at_once_and_has_no_number(edge: Edge, bus: Bus) -> None:
    edge.owners.tell("run.started", run_id=RUN)
    async with streaming(edge, PATH) as stream, streaming(edge, PATH) as second:
        assert await stream.numbers(1) == await second.numbers(1) == [1]
        for text in ("Good ", "day"):
            bus.hint(subjects.run_delta(RUN), json.dumps({"text": text}).encode())
            for each in (stream, second):
                found = await each.next(timeout=1.5)
                assert found == {"event": "model.delta", "data": json.dumps({"text": text})}
        bus.hint(subjects.run_delta(UNKNOWN), b'{"text": "for others"}')
        edge.owners.tell("message.created", run_id=RUN)
        bus.hint(subjects.run_wake(RUN))
        assert await stream.numbers(1) == [2]
    async with streaming(edge, PATH) as late:
        assert await late.numbers(2) == [1, 2]


async def test_without_a_wake_up_it_shows_in_two_seconds(edge: Edge) -> None:
    async with streaming(edge, PATH) as stream:
        edge.owners.tell("message.created", run_id=RUN)
        assert await stream.numbers(1) == [1]


async def test_no_gap_and_no_duplicate_over_reconnects(edge: Edge, bus: Bus) -> None:
    total, seen = 450, list[int]()

    async def tell() -> None:
        for _ in range(total - 1):
            edge.owners.tell("message.created", run_id=RUN)
            bus.hint(subjects.run_wake(RUN))
            await asyncio.sleep(0)
        edge.owners.tell("run.finished", run_id=RUN)
        bus.hint(subjects.run_wake(RUN))

    telling = asyncio.create_task(tell())
    while len(seen) < total:
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
        async with streaming(edge, PATH, **headers) as stream:
            for _ in range(70):  # then the connection breaks
                event = await stream.next()
                if event is None:
                    break
                seen.append(int(event["id"]))
    await telling
    assert seen == list(range(1, total + 1))


async def test_json_of_several_lines_arrives_whole(edge: Edge) -> None:
    raw = b'{"arguments": {\n  "n": 9007199254740993,\r\n "d": 1.10, "big": 1e400}}'
    edge.owners.events.append(
        rpb.RunEvent(seq=1, type="approval.requested", at=at(), data_json=raw)
    )
    edge.owners.tell("run.finished")
    async with streaming(edge, PATH) as stream:
        event = await stream.next()
    assert event is not None
    assert event["data"] == raw.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("", {"Last-Event-ID": "1"}, 2),
        ("?after=2", {}, 3),
        ("?after=1", {"Last-Event-ID": "2"}, 3),
        ("?after=2", {"Last-Event-ID": "0"}, 1),
        ("?after=00&other=x", {}, 1),
    ],
)
async def test_where_it_begins(edge: Edge, query: str, headers: dict[str, str], first: int) -> None:
    for _ in range(3):
        edge.owners.tell("message.created")
    async with streaming(edge, PATH + query, **headers) as stream:
        assert await stream.numbers(1) == [first]


@pytest.mark.parametrize("number", ["4", str(2**63 - 1), str(2**64), "9" * 5000])
async def test_a_number_ahead_of_the_end_waits(edge: Edge, number: str) -> None:
    edge.owners.tell("message.created")
    async with streaming(edge, f"{PATH}?after={number}"):
        pass
    assert edge.owners.last(rpb.ListRunEventsRequest).after == min(int(number[:30]), 2**63 - 1)


@pytest.mark.parametrize("number", ["", "-1", "1.0", "0x1", "\u0661", "1 ", "abc", "+1", "null"])
async def test_anything_else_is_400(edge: Edge, number: str) -> None:
    answer = await edge.ask("GET", PATH, params={"after": number})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/after"
    if number.isascii() and number.strip() == number:
        answer = await edge.ask("GET", PATH, headers={"Last-Event-ID": number})
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/last_event_id"


async def test_after_the_end_there_is_nothing(edge: Edge) -> None:
    edge.owners.tell("run.queued")
    edge.owners.tell("run.finished")
    for number in ("2", "99"):
        answer = await edge.ask("GET", PATH, headers={"Last-Event-ID": number})
        assert (answer.status_code, answer.content) == (204, b"")


async def test_who_may_not_see_the_run(edge: Edge) -> None:
    assert (await edge.ask("GET", PATH, "b-owner")).status_code == 404
    assert (await edge.ask("GET", f"/v1/runs/{UNKNOWN}/events")).status_code == 404
    assert (await edge.ask("GET", "/v1/runs/nonsense/events")).status_code == 400
    assert (await edge.ask("GET", PATH, "nobody")).status_code == 401
    assert (await edge.http.get(PATH)).status_code == 401


async def test_it_ends_where_the_credential_ends(edge: Edge) -> None:
    async with streaming(edge, PATH, "owner") as stream:
        edge.owners.revoked.add("owner")
        assert await stream.next() is None


async def test_keep_alive(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "KEEP_ALIVE", 0.05)
    async with streaming(edge, PATH) as stream:
        assert [await stream.comment() for _ in range(3)] == [": keep-alive"] * 3


async def test_it_stays_open_while_the_owners_restart(nats_server: NatsServer) -> None:
    async with gateway(nats_server.url) as edge:
        edge.owners.tell("run.queued")
        async with streaming(edge, PATH) as stream:
            assert await stream.numbers(1) == [1]
            await edge.servers["runner"].stop(0)
            await edge.servers["approvals"].stop(0)
            edge.owners.tell("run.started")
            assert (await edge.ask("GET", f"/v1/runs/{RUN}", "owner")).status_code == 503
            edge.servers["approvals"] = await serve_approvals(edge.owners, edge.approvals_addr)
            edge.servers["runner"] = await serve_runner(edge.owners, edge.runner_addr)
            assert await stream.numbers(1) == [2]


async def test_500_connects_with_a_reset_leave_nothing(edge: Edge) -> None:
    """Case 38."""
    edge.owners.tell("run.queued")
    async with streaming(edge, PATH):
        assert not await no_task_left()
    url = urlsplit(edge.url)
    request = (f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hk_admin\r\n\r\n").encode()
    for number in range(500):
        connection = socket.create_connection((url.hostname, url.port))
        linger = struct.pack("ii", 1, 0)  # close resets
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.send(request)
        if number % 2:
            await asyncio.sleep(0.002)  # some get as far as an open stream
        connection.close()
    await eventually(lambda: none_open(edge), what="no stream is open")
    await eventually(no_task_left, what="no task is left")
    reached = sum(isinstance(r, rpb.ListRunEventsRequest) for r in edge.owners.asked)
    assert reached > 200


async def test_head_of_a_stream_is_no_stream(edge: Edge) -> None:
    answer = await edge.ask("HEAD", PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""
