"""uvicorn in a task of ours: it takes no signals, and stops in time with streams open."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

_BACKLOG = 2048
_MOST_CONNECTIONS = 10_000
_LONGEST_HEADERS = 32 * 1024
# Longer than clients keep idle connections, so that theirs is the end that closes.
_KEEP_ALIVE = 75


class Server(uvicorn.Server):
    """Serves on a socket that is bound here, so that a free port is known at once."""

    def __init__(self, app: ASGIApp, addr: str, *, drain: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=max(1, int(drain)),
                h11_max_incomplete_event_size=_LONGEST_HEADERS,
            )
        )
        host, _, port = addr.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
        # Inherited by its connections; asyncio does not set it on those of a given socket, and then
        # every answer waits 40 ms for the client's acknowledgement of its headers.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none: they are the lifecycle's."""
        yield

    async def run_until_told(self) -> None:
        """Serve until `should_exit` is set, then let what is under way end."""
        await self.serve([self._socket])
