"""How a service starts, stays up and stops."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import uvloop

from hango_platform.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from hango_platform.settings import ServiceSettings

log = logging.getLogger(__name__)


class Tasks:
    """Background tasks of a service. One that ends by an exception ends the service: half a
    service helps nobody.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run this until it ends or `stop` is called."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task failed", exc_info=error, extra={"task": task.get_name()})
            if not self.failed.done():
                self.failed.set_result(error)

    async def stop(self) -> None:
        """Cancel all tasks and wait for their ends.

        A cancellation can be lost in a library (`asyncio.wait_for` of Python 3.11 drops one that
        comes as its work ends), so whoever goes on is cancelled again.
        """
        while tasks := [t for t in self._tasks if t is not asyncio.current_task()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1)


async def _serve(
    start: Callable[[AsyncExitStack, Tasks], Awaitable[Mapping[str, Any]]],
    settings: ServiceSettings,
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tasks = Tasks()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(tasks.stop)
        addresses = await start(stack, tasks)
        log.info("serving", extra={"addresses": dict(addresses)})
        if settings.ready_fd is not None:
            with os.fdopen(settings.ready_fd, "w") as ready:
                ready.write(json.dumps(dict(addresses)) + "\n")
        tasks.failed.add_done_callback(lambda _: stopped.set())
        await stopped.wait()
        log.info("stopping")
    if tasks.failed.done():
        raise SystemExit(1)


def run(
    service: str,
    settings: ServiceSettings,
    start: Callable[[AsyncExitStack, Tasks], Awaitable[Mapping[str, Any]]],
) -> None:
    """Run a service until SIGTERM or SIGINT.

    `start` builds the service, pushes what must be closed on the stack (closed in reverse order),
    and returns the addresses it is bound to. Exits with 1 when a background task of the service
    failed.
    """
    logs.configure(service, settings.log_level)
    uvloop.run(_serve(start, settings))
