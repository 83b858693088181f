"""Named points where a test may break a process. Nothing happens unless `HANGO_FAULT` was set at
start.

The form is `<point>:<kind>[:<times>]`, several joined by commas; a point does its harm so many
times, once by default. The kinds:

- `kill9`: the process ends as by kill -9.
- `raise`: a fault of our own, which nobody expects.
- `hang`: whoever comes here never goes on.
- `execute_and_timeout`: what the point is about happens, and whoever waits for it is told that it
  is not known whether it did. A point named `before_…` stands inside a transaction whose COMMIT is
  then sent and taken, and its answer lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextvars import ContextVar

from hango_platform.errors import OutcomeUnknown

log = logging.getLogger(__name__)

KINDS = ("kill9", "raise", "hang", "execute_and_timeout")

_answer_lost: ContextVar[bool] = ContextVar("answer_lost", default=False)


class FaultInjected(RuntimeError):
    """What a point raises when it was told to."""


class AnswerLost(OutcomeUnknown, TimeoutError):
    """What a point raises for an answer that did not come back: a timeout to all who know one."""


class _Armed:
    def __init__(self, spec: str) -> None:
        point, _, rest = spec.partition(":")
        kind, _, times = rest.partition(":")
        if kind not in KINDS:
            msg = f"HANGO_FAULT: {spec} is not <point>:<kind>[:<times>]"
            raise ValueError(msg)
        self.point, self.kind, self.left = point, kind, int(times or 1)


_armed = [_Armed(s) for s in os.environ.get("HANGO_FAULT", "").split(",") if s]
ACTIVE = bool(_armed)


async def reach(point: str) -> None:
    """Do what the environment asked for at this point."""
    for fault in _armed:
        if fault.point != point or fault.left <= 0:
            continue
        fault.left -= 1
        log.warning("fault", extra={"point": point, "kind": fault.kind})
        match fault.kind:
            case "kill9":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await asyncio.Event().wait()
            case "execute_and_timeout" if point.startswith("before_"):
                _answer_lost.set(True)
            case "execute_and_timeout":
                raise AnswerLost(point)
            case _:
                raise FaultInjected(point)


def answer_is_lost() -> bool:
    """Whether the answer to the COMMIT that comes now is to be lost; once a fault."""
    lost = _answer_lost.get()
    _answer_lost.set(False)
    return lost
