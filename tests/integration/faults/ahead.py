"""Lets the next few tests of a long list run already: what they do most is wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

C = TypeVar("C")

WIDTH = 5


class Ahead(Generic[C]):
    """`work` done for each of `cases`, in their order, `WIDTH` of them at a time."""

    def __init__(self, cases: Sequence[C], work: Callable[[C], Awaitable[None]]) -> None:
        self._waiting = list(cases)
        self._work = work
        self._tasks: dict[C, asyncio.Task[None]] = {}

    async def of(self, case: C) -> None:
        """Wait for this case's work; raises what it raised."""
        while case in self._waiting or self._under_way() < WIDTH:
            if not self._waiting:
                break
            self._start(self._waiting.pop(0))
        await self._tasks.pop(case)

    def _under_way(self) -> int:
        return sum(not task.done() for task in self._tasks.values())

    def _start(self, case: C) -> None:
        async def work() -> None:
            await self._work(case)

        self._tasks[case] = asyncio.create_task(work(), name=f"case {case}")

    async def stop(self) -> None:
        """Give up what nobody waits for."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
