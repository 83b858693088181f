"""Identifiers and secrets: every random value of hango is made here."""

from __future__ import annotations

import secrets
import time
import uuid

_SUSPENSIONS = uuid.UUID("5b1f1a0e-6d0c-5c9b-9f44-6f9d6a3d1c10")


def new_id() -> str:
    """A UUIDv7 (RFC 9562, section 5.7): the first 48 bits are Unix milliseconds, so ids sort by
    time.
    """
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def suspension_id(run_id: str, gen: int) -> str:
    """The one value that both databases share: the same for the same run and generation,
    anywhere.
    """
    return str(uuid.uuid5(_SUSPENSIONS, f"{run_id}/{gen}"))


def derived_id(*parts: str | int) -> str:
    """An id that is the same for the same parts; for events that may be reported more than once."""
    return str(uuid.uuid5(_SUSPENSIONS, "/".join(map(str, parts))))


def is_id(text: str) -> bool:
    """Whether the text is a UUID in its canonical form."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def new_secret(prefix: str) -> str:
    """A secret with 256 bits of randomness, recognisable by its prefix."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def new_bytes(number: int) -> bytes:
    """So many random bytes."""
    return secrets.token_bytes(number)


def new_key() -> str:
    """32 random bytes in hex, to sign or encrypt with."""
    return secrets.token_hex(32)


def new_trace_id() -> str:
    """A W3C trace id: 32 hex digits."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """A W3C span id: 16 hex digits."""
    return secrets.token_hex(8)


def jitter() -> float:
    """A number in [0.5, 1.5) to spread retries with."""
    return 0.5 + secrets.randbelow(1000) / 1000
