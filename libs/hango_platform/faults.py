"""Named points where a test may break a process. Nothing happens unless `HANGO_FAULT` was set at
start.

The form is `<point>:<kind>[:<times>]`, kinds being `kill9`, `raise` and `hang`; `hang` and `raise`
happen `times` times (once by default).
"""

from __future__ import annotations

import asyncio
import os
import signal


class FaultInjected(RuntimeError):
    """What a point raises when it was told to."""


class _Armed:
    def __init__(self, spec: str) -> None:
        point, _, rest = spec.partition(":")
        kind, _, times = rest.partition(":")
        self.point, self.kind, self.left = point, kind, int(times or 1)


_armed = [_Armed(s) for s in os.environ.get("HANGO_FAULT", "").split(",") if s]
ACTIVE = bool(_armed)


async def reach(point: str) -> None:
    """Do what the environment asked for at this point."""
    for fault in _armed:
        if fault.point != point or fault.left <= 0:
            continue
        fault.left -= 1
        match fault.kind:
            case "kill9":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                await asyncio.Event().wait()
            case _:
                raise FaultInjected(point)
