"""Hints from the bus: this run's suspension is closed, ask A how."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable
from hango_platform.ids import is_id, jitter

if TYPE_CHECKING:
    from hango_runner.use_cases.suspensions import Suspensions

log = logging.getLogger(__name__)

_KEPT = 10_000


class ResumeHints:
    """Gathers hints while the last ones are being looked into, so that one question to A serves
    many.

    A hint that is lost costs at most the 5 s of the reconciler; one that cannot be looked into just
    now is tried again in a second.
    """

    def __init__(self, suspensions: Suspensions) -> None:
        self._suspensions = suspensions
        self._pending: dict[str, tuple[str, str, str]] = {}
        self._wake = asyncio.Event()

    def hear(self, _subject: str, payload: bytes) -> None:
        """Take a hint; what is none is dropped."""
        try:
            body = json.loads(payload)
            hint = (body["tenant_id"], body["run_id"], body["suspension_id"])
        except (ValueError, KeyError, TypeError):
            log.warning("hint dropped: it cannot be read")
            return
        if not all(isinstance(part, str) and is_id(part) for part in hint):
            log.warning("hint dropped: it names no run")
            return
        self._pending[hint[2]] = hint
        self._wake.set()

    async def run(self) -> None:
        """Look into hints, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            hints, self._pending = list(self._pending.values()), {}
            try:
                await self._suspensions.settle(hints)
            except (Unavailable, OutcomeUnknown):
                # Whoever is away is mostly back in a moment.
                if len(self._pending) < _KEPT:
                    self._pending = {hint[2]: hint for hint in hints} | self._pending
                    self._wake.set()
                await asyncio.sleep(jitter())
            except HangoError as error:
                log.warning(
                    "hints left to the reconciler",
                    extra={"hints": len(hints), "error": error.reason},
                )

    async def catch_up(self) -> None:
        """Look at every paused run once: hints may have passed while nobody listened."""
        try:
            await self._suspensions.reconcile(500)
        except HangoError as error:
            log.warning("not caught up; the reconciler will", extra={"error": error.reason})
