"""The embedded NATS: locked, durable over restarts, with a login that can only read."""

import asyncio
import contextlib
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import nats
import pytest
from hango_cli.embedded import EmbeddedNats
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, StreamConfig

SUBJECT = "hango.demo.approval.requested.v1"
WORK_QUEUE = "runner"


@contextlib.asynccontextmanager
async def connection(url: str, errors: list[str] | None = None) -> AsyncIterator[Client]:
    """A client that does not reconnect; what the server complains of is added to `errors`."""

    async def on_error(error: Exception) -> None:
        if errors is not None:
            errors.append(str(error).lower())

    client = await nats.connect(url, allow_reconnect=False, connect_timeout=2, error_cb=on_error)
    try:
        yield client
    finally:
        await client.close()


@dataclass
class World:
    """A server with the stream, a service's consumer, one message, and a service and a reader."""

    server: EmbeddedNats
    service: Client
    reader: Client
    complaints: list[str]

    async def stream_state(self) -> tuple[int, int]:
        info = await self.service.jetstream().stream_info("HANGO")
        return info.state.first_seq, info.state.last_seq


@pytest.fixture
async def world(data: Path) -> AsyncIterator[World]:
    server = EmbeddedNats(data / "nats", durable=False, protected_consumers=[WORK_QUEUE])
    server.start()
    complaints: list[str] = []
    try:
        async with (
            connection(server.url) as service,
            connection(server.reader_url, complaints) as reader,
        ):
            stream = service.jetstream()
            await stream.add_stream(StreamConfig(name="HANGO", subjects=["hango.>"]))
            await stream.add_consumer("HANGO", ConsumerConfig(durable_name=WORK_QUEUE))
            await stream.publish(SUBJECT, b"first")
            yield World(server, service, reader, complaints)
    finally:
        server.stop()


@pytest.mark.parametrize(
    "login", [{}, {"user": "hango", "pass": "wrong"}, {"user": "reader", "pass": ""}]
)
async def test_nobody_enters_without_the_password(world: World, login: dict[str, str]) -> None:
    """Spoken by hand: nats-py leaves the socket of a refused connection open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    assert (await reader.readline()).startswith(b"INFO ")
    writer.write(f"CONNECT {json.dumps(login)}\r\nPING\r\n".encode())
    assert b"Authorization Violation" in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_reader_hears_what_is_published(world: World) -> None:
    heard = await world.reader.subscribe("hango.>")
    await world.reader.flush()
    await world.service.publish(SUBJECT, b"live")
    assert (await heard.next_msg(5)).data == b"live"


async def test_a_reader_replays_through_ephemeral_consumers(world: World) -> None:
    stream = world.reader.jetstream()
    ordered = await stream.subscribe("hango.>", ordered_consumer=True)
    assert (await ordered.next_msg(5)).data == b"first"

    pulled = await stream.pull_subscribe("hango.demo.>", stream="HANGO")
    [message] = await pulled.fetch(1, timeout=5)
    await message.ack_sync()
    assert message.data == b"first"

    named = ConsumerConfig(name="mine", filter_subject="hango.>", inactive_threshold=30)
    await stream.add_consumer("HANGO", named)
    by_name = await stream.pull_subscribe_bind("mine", stream="HANGO")
    assert [m.data for m in await by_name.fetch(1, timeout=5)] == [b"first"]

    assert (await stream.stream_info("HANGO")).state.messages == 1
    assert (await stream.get_msg("HANGO", 1)).data == b"first"
    assert world.complaints == []


async def publish(reader: Client) -> None:
    await reader.publish(SUBJECT, b"forged")
    await reader.flush()


async def publish_to_the_stream(reader: Client) -> None:
    await reader.jetstream(timeout=0.3).publish(SUBJECT, b"forged", timeout=0.3)


async def purge(reader: Client) -> None:
    await reader.jetstream(timeout=0.3).purge_stream("HANGO")


async def delete(reader: Client) -> None:
    await reader.jetstream(timeout=0.3).delete_stream("HANGO")


async def delete_message(reader: Client) -> None:
    await asyncio.wait_for(reader.jetstream().delete_msg("HANGO", 1), timeout=0.3)


async def widen(reader: Client) -> None:
    config = StreamConfig(name="HANGO", subjects=["hango.>", "other.>"])
    await reader.jetstream(timeout=0.3).update_stream(config)


async def make_durable(reader: Client) -> None:
    config = ConsumerConfig(durable_name="mine")
    await reader.jetstream(timeout=0.3).add_consumer("HANGO", config)


async def change_the_services_consumer(reader: Client) -> None:
    config = ConsumerConfig(name=WORK_QUEUE, filter_subject="hango.none")
    await reader.jetstream(timeout=0.3).add_consumer("HANGO", config)


async def delete_the_services_consumer(reader: Client) -> None:
    await reader.jetstream(timeout=0.3).delete_consumer("HANGO", WORK_QUEUE)


async def take_the_services_messages(reader: Client) -> None:
    work = await reader.jetstream().pull_subscribe_bind(WORK_QUEUE, stream="HANGO")
    await work.fetch(1, timeout=0.3)


async def acknowledge_the_services_messages(reader: Client) -> None:
    await reader.publish(f"$JS.ACK.HANGO.{WORK_QUEUE}.1.1.1.1.0", b"+ACK")
    await reader.flush()


async def listen_elsewhere(reader: Client) -> None:
    await reader.subscribe("$JS.API.>")
    await reader.flush()


@pytest.mark.parametrize(
    "attempt",
    [
        publish,
        publish_to_the_stream,
        purge,
        delete,
        delete_message,
        widen,
        make_durable,
        change_the_services_consumer,
        delete_the_services_consumer,
        take_the_services_messages,
        acknowledge_the_services_messages,
        listen_elsewhere,
    ],
    ids=lambda attempt: attempt.__name__,
)
async def test_a_reader_can_only_read(
    world: World, attempt: Callable[[Client], Awaitable[None]]
) -> None:
    with contextlib.suppress(TimeoutError):  # a request that the server refuses gets no answer
        await attempt(world.reader)
    await world.reader.flush()
    assert any("permissions violation" in complaint for complaint in world.complaints)
    assert await world.stream_state() == (1, 1)
    info = await world.service.jetstream().consumer_info("HANGO", WORK_QUEUE)
    assert (info.num_pending, info.num_ack_pending, info.config.filter_subject) == (1, 0, None)


async def test_a_restart_keeps_messages_and_urls(data: Path) -> None:
    server = EmbeddedNats(data / "nats")
    server.start()
    urls = server.url, server.reader_url
    async with connection(server.url) as client:
        stream = client.jetstream()
        await stream.add_stream(StreamConfig(name="HANGO", subjects=["hango.>"]))
        await stream.publish(SUBJECT, b"kept")
    server.stop()
    assert not server.alive()

    server = EmbeddedNats(data / "nats")
    server.start()
    try:
        assert (server.url, server.reader_url) == urls
        async with connection(server.url) as client:
            assert (await client.jetstream().get_msg("HANGO", 1)).data == b"kept"
    finally:
        server.stop()


def test_its_files_are_closed(world: World, data: Path) -> None:
    files = [
        path for path in (data / "nats").iterdir() if path.suffix in {".json", ".conf", ".log"}
    ]
    assert {path.name for path in files} == {"nats.conf", "server.json", "nats-server.log"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


async def test_the_event_loop_of_the_caller_is_not_touched(world: World) -> None:
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0
    assert world.server.alive()
