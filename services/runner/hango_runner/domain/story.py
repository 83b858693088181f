"""The events of a run's story, as JSON text. The run's id and the time are added when they are
read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_INLINE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON text that goes into an object as it is, digit by digit."""

    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type and its data, a JSON object as text."""

    type: str
    data: str


def json_text(value: Any) -> str:
    """A value as ASCII JSON text, which PostgreSQL takes whatever is in it."""
    return json.dumps(value, separators=(",", ":"))


def json_object(members: Mapping[str, Any]) -> str:
    """An object as JSON text; a member may be Raw."""
    parts = (
        f"{json_text(k)}:{v.text if isinstance(v, Raw) else json_text(v)}"
        for k, v in members.items()
    )
    return "{" + ",".join(parts) + "}"


def rfc3339(time: datetime) -> str:
    """A time in UTC as clients read it."""
    return time.isoformat().replace("+00:00", "Z")


def message_created(seq: int, role: str, content_json: str, **members: Any) -> Event:
    """A message of the transcript. Long content is left to be fetched by its number."""
    inline = len(content_json) <= _INLINE
    return Event(
        "message.created",
        json_object(
            {
                "seq": seq,
                "role": role,
                "content": Raw(content_json) if inline else None,
                "truncated": not inline,
                **members,
            }
        ),
    )


def tool_event(kind: str, tool_call_id: str, tool_name: str, **members: Any) -> Event:
    """`tool.started` or `tool.finished`."""
    return Event(
        kind, json_object({"tool_call_id": tool_call_id, "tool_name": tool_name, **members})
    )


def run_finished(state: str, reason: str | None = None, message: str | None = None) -> Event:
    """The last event of a run."""
    failure = None if reason is None else {"reason": reason, "message": message}
    return Event("run.finished", json_object({"state": state, "failure": failure}))


def model_delta(run_id: str, turn: int, attempt: int, text: str) -> bytes:
    """A piece of an answer while it grows, as it goes to open streams: no part of the story."""
    found = {"run_id": run_id, "turn": turn, "attempt": attempt, "text": text}
    return json_text(found).encode()
