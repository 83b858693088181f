"""Where time comes from. Deadlines that matter are judged by the database's clock, not by this
one.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return time.monotonic()
