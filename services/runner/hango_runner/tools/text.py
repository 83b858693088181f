"""Text on its way into the database and to the model: bounded, and such that both can hold it."""

from __future__ import annotations

MAX_RESULT_BYTES = 64 * 1024
"""The longest result of a tool, in UTF-8 bytes, the marker that says it was cut not counted."""

_CUT = "\n[cut here: the result is longer than {limit} bytes; ask for less]"


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold it as text: no NUL, no unpaired surrogate."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def storable(text: str) -> str:
    """`text` with U+FFFD in place of what PostgreSQL cannot hold."""
    if is_storable(text):
        return text
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def clip(text: str, limit: int = MAX_RESULT_BYTES) -> str:
    """`text`, cut at `limit` UTF-8 bytes with a marker that says so."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[:limit].decode(errors="ignore") + _CUT.format(limit=limit)
