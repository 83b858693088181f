"""Breaks things of one stack, and only of that: the pids of its ready file, checked to be below
the process that we started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import asyncpg
import psutil

from tests.chaos.stack import LEASE, rows

if TYPE_CHECKING:
    import random

    from tests.chaos.stack import ChaosUp

SERVICES = ("approvals", "runner", "gateway", "sweeper")


class Monkey:
    """Does one harm after the other until told to stop."""

    def __init__(self, up: ChaosUp, dice: random.Random, *, every: float = 3.0) -> None:
        self._up = up
        self._dice = dice
        self._every = every
        self._frozen: set[int] = set()
        self.done: Counter[str] = Counter()

    async def run(self, until: float) -> None:
        """Break things, with a moment between them."""
        harms = {
            self._kill_service: 8,
            self._freeze_service: 4,
            self._end_sessions: 4,
            self._restart_postgres: 1,
            self._kill_nats: 1,
            self._empty_nats: 1,
        }
        try:
            while time.monotonic() < until:
                await asyncio.sleep(self._every * self._dice.uniform(0.3, 1.7))
                harm = self._dice.choices(list(harms), list(harms.values()))[0]
                await harm()
        finally:
            for pid in self._frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _pid(self, name: str) -> int | None:
        """The pid of this process, if it is one of ours and alive."""
        ready = self._up.ready()
        if ready is None or self._up.process is None:
            return None
        pid: int = ready["pids"][name]
        try:
            ours = self._up.process.pid in [p.pid for p in psutil.Process(pid).parents()]
        except psutil.Error:
            return None
        return pid if ours else None

    def _signal(self, name: str, number: signal.Signals) -> int | None:
        pid = self._pid(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    async def _kill_service(self) -> None:
        name = self._dice.choice(SERVICES)
        if self._signal(name, signal.SIGKILL):
            self.done[f"kill -9 {name}"] += 1

    async def _freeze_service(self) -> None:
        name = self._dice.choice(SERVICES)
        pid = self._signal(name, signal.SIGSTOP)
        if pid is None:
            return
        self._frozen.add(pid)
        await asyncio.sleep(self._dice.uniform(0.3, LEASE + 1))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self._frozen.discard(pid)
        self.done[f"freeze {name}"] += 1

    async def _end_sessions(self) -> None:
        share = self._dice.choice((0.3, 1.0))
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await rows(
                self._up.superuser(),
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname LIKE 'hango_%' AND random() < $1",
                share,
            )
            self.done["pg_terminate_backend"] += 1

    async def _restart_postgres(self) -> None:
        if self._signal("postgres", signal.SIGKILL):
            self.done["kill -9 postgres"] += 1

    async def _kill_nats(self) -> None:
        if self._signal("nats", signal.SIGKILL):
            self.done["kill -9 nats"] += 1

    async def _empty_nats(self) -> None:
        if self._signal("nats", signal.SIGKILL):
            shutil.rmtree(self._up.jetstream, ignore_errors=True)
            self.done["kill -9 nats, its store deleted"] += 1
