"""Text on its way into the database and to the model: bounded, and such that both can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RESULT_BYTES = 64 * 1024
"""The longest result of a tool, in UTF-8 bytes, the marker that says it was cut not counted."""

_CUT = "\n[cut here: the result is longer than {limit} bytes; ask for less]"


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold it: no unpaired surrogate."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold it as text: neither NUL nor an unpaired surrogate."""
    return "\0" not in text and is_unicode(text)


def texts_in(value: Any) -> Iterator[str]:
    """All text of a JSON value, keys included."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            yield from value
            for item in value.values():
                yield from texts_in(item)


def presentable(text: str, limit: int = MAX_RESULT_BYTES) -> str:
    """`text` with U+FFFD for what cannot be stored, cut at `limit` UTF-8 bytes with a marker."""
    if not is_storable(text):
        text = "".join(c if is_storable(c) else "\ufffd" for c in text)
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[:limit].decode(errors="ignore") + _CUT.format(limit=limit)
