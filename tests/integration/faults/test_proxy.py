"""The network that misbehaves does so as it says."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.proxy import Proxy, proxy_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = 0.2


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(100):
                writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with proxy_to(f"tcp://{host}:{port}") as made:
        yield made
    server.close()


class Link:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, text: bytes) -> bytes | None:
        """What comes back; None where nothing does."""
        self._writer.write(text)
        try:
            async with asyncio.timeout(QUICK):
                return await self._reader.read(100)
        except TimeoutError:
            return None

    async def end(self) -> type[Exception] | bytes:
        """How the connection ends."""
        try:
            async with asyncio.timeout(5):
                return await self._reader.read(100)
        except OSError as error:
            return type(error)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Link]:
    made = Link(*await asyncio.open_connection(*proxy.address))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
async def link(proxy: Proxy) -> AsyncIterator[Link]:
    """A connection that works."""
    async with connected(proxy) as made:
        assert await made.say(b"hello") == b"hello"
        yield made


async def test_latency(proxy: Proxy, link: Link) -> None:
    proxy.latency = QUICK
    assert await link.say(b"late") is None


async def test_cut(proxy: Proxy, link: Link) -> None:
    proxy.cut()
    assert await link.end() == b""


async def test_reset(proxy: Proxy, link: Link) -> None:
    proxy.reset()
    assert await link.end() is ConnectionResetError


async def test_half_open(proxy: Proxy, link: Link) -> None:
    proxy.half_open = True
    assert await link.say(b"anybody?") is None
    async with connected(proxy) as new:
        assert await new.say(b"new") is None
    proxy.heal()
    assert await link.end() is ConnectionResetError
    async with connected(proxy) as healed:
        assert await healed.say(b"well") == b"well"


async def test_swallow(proxy: Proxy, link: Link) -> None:
    proxy.swallow = (b"UPDATE", b"COMMIT")
    assert await link.say(b"x COMMIT x") == b"x COMMIT x"
    assert await link.say(b"x UPDATE x") == b"x UPDATE x"
    assert await link.say(b"x COMMIT x") is None
    assert proxy.swallowed.is_set()
    async with connected(proxy) as other:
        assert await other.say(b"other") == b"other"
