"""The answer as it grows, for whoever looks on now. Nothing of it is kept, and nothing needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_platform import clock

from hango_runner.agent.chain import Middleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Run

EVERY = 0.05
"""Seconds that pieces are gathered for before they are told."""


class Deltas(Middleware):
    """Tells `tell(run_id, turn, attempt, text)` of each piece of an answer; the last piece comes
    with the message itself. An attempt that begins anew has a higher number.
    """

    def __init__(self, tell: Callable[[str, int, int, str], None]) -> None:
        self._tell = tell

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """The request with somebody to tell."""
        return replace(request, tell=_Gathering(run, self._tell))


class _Gathering:
    def __init__(self, run: Run, tell: Callable[[str, int, int, str], None]) -> None:
        self._run_id, self._turn = run.id, run.turn
        self._tell = tell
        self._gathered = ""
        self._attempt = 1
        self._since = 0.0

    def __call__(self, text: str, attempt: int) -> None:
        if attempt != self._attempt:
            self._gathered, self._attempt = "", attempt
        self._gathered += text
        if clock.monotonic() - self._since >= EVERY:
            self._since = clock.monotonic()
            gathered, self._gathered = self._gathered, ""
            self._tell(self._run_id, self._turn, attempt, gathered)
