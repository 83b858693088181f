"""W3C trace context (https://www.w3.org/TR/trace-context/), carried along with what is being
done.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from hango_platform.ids import new_span_id, new_trace_id

_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[str] = ContextVar("traceparent")


def traceparent() -> str:
    """The current context; a new trace is begun where there is none."""
    value = _current.get("")
    if not value:
        value = f"00-{new_trace_id()}-{new_span_id()}-01"
        _current.set(value)
    return value


def trace_id() -> str:
    """The current trace's id, 32 hex digits."""
    return trace_id_of(traceparent())


def trace_id_of(parent: str) -> str:
    """The trace id of a traceparent; empty where the text is none."""
    return parent[3:35] if _FORM.fullmatch(parent) else ""


def continue_from(parent: str | None) -> None:
    """Make this the current context; a missing or malformed one begins a new trace."""
    _current.set(parent if parent and _FORM.fullmatch(parent) else "")
