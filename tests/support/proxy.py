"""A network that misbehaves on demand, between a client and a server on this host."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK = 64 * 1024
_LINGER_NONE = struct.pack("ii", 1, 0)


@dataclass
class Proxy:
    """Passes bytes on to `host:port`, as well as it is told to.

    `latency`: seconds that every chunk takes, each way. `half_open`: connections stay, and nothing
    passes in either direction any more, as when a host vanishes; new ones are accepted and are as
    dead. `swallow`: texts; on the connection where the client has sent all of them, one after the
    other, nothing of the server's gets back any more: what they ask for happens, unanswered.
    """

    host: str
    port: int
    latency: float = 0.0
    half_open: bool = False
    swallow: tuple[bytes, ...] = ()
    swallowed: asyncio.Event = field(default_factory=asyncio.Event)
    address: tuple[str, int] = ("", 0)
    _links: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving: set[asyncio.Task[Any]] = field(default_factory=set)

    def url(self, original: str) -> str:
        """The same URL, by way of this proxy."""
        parts = urlsplit(original)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}{self.address[0]}:{self.address[1]}").geturl()

    def cut(self) -> None:
        """Close every connection in good order."""
        for writer in list(self._links):
            writer.close()

    def reset(self) -> None:
        """End every connection with a reset."""
        for writer in list(self._links):
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            writer.transport.abort()

    def heal(self) -> None:
        """Pass everything on from now; the connections that were there are lost."""
        self.latency, self.half_open, self.swallow = 0.0, False, ()
        self.reset()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            there, back = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        lost = asyncio.Event()
        links = {writer, back}
        self._links |= links
        ways = (self._pass(reader, back, lost, client=True), self._pass(there, writer, lost))
        tasks = {asyncio.create_task(way) for way in ways}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for link in links:
                link.close()
            self._links -= links

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: asyncio.Event,
        *,
        client: bool = False,
    ) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                if self.latency:
                    await asyncio.sleep(self.latency)
                while client and sent < len(self.swallow) and self.swallow[sent] in chunk:
                    sent += 1
                    if sent == len(self.swallow):
                        lost.set()
                        self.swallowed.set()
                if self.half_open or (lost.is_set() and not client):
                    continue
                writer.write(chunk)
                await writer.drain()


@asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the server of this URL, on a free port."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 0)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.address = server.sockets[0].getsockname()[:2]
    try:
        yield proxy
    finally:
        server.close()
        proxy.reset()
        await asyncio.gather(*proxy._serving)
