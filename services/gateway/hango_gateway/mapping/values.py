"""Single values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from hango_policy import strict_json
from hango_policy.errors import JsonRefused
from orjson import Fragment

if TYPE_CHECKING:
    from google.protobuf.message import Message

Json: TypeAlias = dict[str, Any]
"""An object for orjson; exact JSON text in it is a Fragment."""
Enum: TypeAlias = Any
"""An enum of the stubs: they say that it is a type, and it is an EnumTypeWrapper."""


def _prefix(enum: Enum) -> str:
    name: str = enum.Name(0)
    return name.removesuffix("UNSPECIFIED")


def word(enum: Enum, value: int) -> str | None:
    """A value of an enum as REST has it: lower case, without the enum's name; None for unset."""
    if not value:
        return None
    name: str = enum.Name(value)
    return name.removeprefix(_prefix(enum)).lower()


def number(enum: Enum, text: str | None) -> Any:
    """The value that `word` makes this text of; 0 for None. Raises ValueError."""
    return enum.Value(_prefix(enum) + text.upper()) if text is not None else 0


def time(message: Message, field: str) -> str | None:
    """A time as RFC 3339 in UTC; None for unset."""
    if not message.HasField(field):
        return None
    text: str = getattr(message, field).ToJsonString()
    return text


def optional(message: Message, field: str) -> Any:
    """A field, None for unset."""
    return getattr(message, field) if message.HasField(field) else None


def raw(text: bytes) -> Fragment | None:
    """JSON text that its owner vouches for, digit by digit; None for none."""
    return Fragment(text) if text else None


def raw_if_json(text: bytes) -> Fragment | None:
    """Text that may be JSON, exact; None where it is not."""
    try:
        strict_json.parse(text, max_bytes=len(text))
    except JsonRefused:
        return None
    return Fragment(text)


def text(exact: bytes) -> str | Fragment:
    """Text that may hold what UTF-8 cannot: unpaired surrogates, which JSON can escape."""
    try:
        return exact.decode()
    except UnicodeDecodeError:
        return Fragment(json.dumps(_lenient(exact)))


def _lenient(exact: bytes) -> str:
    try:
        return exact.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return exact.decode("utf-8", "replace")
