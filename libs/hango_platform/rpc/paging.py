"""Keyset pages: a size within bounds, and a token that says where to go on."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime

from hango_platform.errors import InvalidRequest, Violation

DEFAULT_SIZE = 50
LARGEST_SIZE = 200


def page_size(asked: int, *, default: int = DEFAULT_SIZE, largest: int = LARGEST_SIZE) -> int:
    """How many items to give: 0 asks for the default. Raises InvalidRequest beyond the bounds."""
    if not 0 <= asked <= largest:
        msg = f"page_size is a number from 1 to {largest}"
        raise InvalidRequest(
            msg, violations=[Violation("/page_size", f"must be from 1 to {largest}")]
        )
    return asked or default


def to_token(*position: str | int | datetime) -> str:
    """Where the next page begins: the keys of the last item of this one."""
    parts = [p.isoformat() if isinstance(p, datetime) else p for p in position]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def from_token(token: str, *kinds: type) -> tuple[str | int | datetime, ...] | None:
    """The keys that `to_token` was given; None for no token. Raises InvalidRequest for any other
    text.
    """
    if not token:
        return None
    try:
        parts = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True))
        if not isinstance(parts, list):
            raise TypeError
        return tuple(_key(part, kind) for part, kind in zip(parts, kinds, strict=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        msg = "page_token is not one that was given out for this list"
        raise InvalidRequest(
            msg, violations=[Violation("/page_token", "is not a token of this list")]
        ) from None


def _key(part: object, kind: type) -> str | int | datetime:
    if kind is datetime and isinstance(part, str):
        return datetime.fromisoformat(part)
    if kind in (int, str) and type(part) is kind:
        return part
    raise TypeError
