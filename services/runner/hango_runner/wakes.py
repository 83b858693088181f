"""Who waits in this process for a run's story to grow."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wake:
    """One waiter; `for_rest` for one who cares for pauses and ends alone."""

    def __init__(self, *, for_rest: bool) -> None:
        self.for_rest = for_rest
        self._event = asyncio.Event()

    def clear(self) -> None:
        """Call before looking, so that what happens during the look is not missed."""
        self._event.clear()

    def set(self) -> None:
        """The story has grown."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Return when the story has grown since `clear`, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return


class Wakes:
    """Waiters by run. Nothing is kept for a run that nobody waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Wake]] = defaultdict(set)

    def notify(self, run_id: str, *, at_rest: bool) -> None:
        """The run's story has grown; `at_rest`: the run has paused or ended with it."""
        for wake in self._waiting.get(run_id, ()):
            if at_rest or not wake.for_rest:
                wake.set()

    @contextmanager
    def listening(self, run_id: str, *, for_rest: bool = False) -> Iterator[Wake]:
        """A waiter for this run, until the block is left."""
        wake = Wake(for_rest=for_rest)
        self._waiting[run_id].add(wake)
        try:
            yield wake
        finally:
            self._waiting[run_id].discard(wake)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))
