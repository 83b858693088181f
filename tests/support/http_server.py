"""An ASGI application on a real port, for a test."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Its address, `127.0.0.1:PORT`; every connection is cut at the end of the block."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())

    async def started() -> bool:
        if task.done():
            task.result()
        return server.started

    await eventually(started, what="uvicorn has started")
    try:
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        for listener in server.servers:
            listener.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()

        async def over() -> bool:
            return not server.server_state.tasks

        await eventually(over, what="every request has ended")
        server.should_exit = True
        await task
