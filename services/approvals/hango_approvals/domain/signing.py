"""Signed places of a chain: heads that are written outside the database, and checkpoints that say
where a pruned chain begins.

What is signed (Ed25519) is the canonical JSON of `kind`, `tenant_id`, `seq`, `hash` and `at`: keys
sorted, no white space, the time in UTC with microseconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(enum.StrEnum):
    """What a signature says of a place. One is never good for the other."""

    HEAD = "head"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a tenant's chain; `at` is when it was written."""

    tenant_id: str
    seq: int
    hash: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SignedPlace:
    """A place, and who vouches for it. Both are lower-case hex."""

    kind: Kind
    place: Place
    signature: str
    public_key: str

    def line(self) -> bytes:
        """The line of an anchor file."""
        signed = {"public_key": self.public_key, "signature": self.signature}
        return orjson.dumps({**_columns(self.kind, self.place), **signed}) + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> SignedPlace | None:
        """What a line of an anchor file says; None where it says nothing of the kind."""
        try:
            found = orjson.loads(line)
            at = datetime.fromisoformat(found["at"])
            place = Place(str(found["tenant_id"]), int(found["seq"]), str(found["hash"]), at)
            return cls(Kind(found["kind"]), place, str(found["signature"]), found["public_key"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None


class Signer:
    """Signs places with one key, and knows those whose signatures count."""

    def __init__(self, seed: bytes, trusted: Iterable[str] = ()) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = self._key.public_key().public_bytes_raw().hex()
        self._trusted = {self.public_key, *trusted}

    def sign(self, kind: Kind, place: Place) -> SignedPlace:
        """Vouch for a place."""
        signature = self._key.sign(_text(kind, place)).hex()
        return SignedPlace(kind, place, signature, self.public_key)

    def holds(self, signed: SignedPlace, kind: Kind) -> bool:
        """Whether a key that counts has signed this, and as such."""
        if signed.kind is not kind or signed.public_key not in self._trusted:
            return False
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.public_key))
            key.verify(bytes.fromhex(signed.signature), _text(signed.kind, signed.place))
        except (InvalidSignature, ValueError):
            return False
        return True


def _columns(kind: Kind, place: Place) -> dict[str, object]:
    return {
        "at": place.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "hash": place.hash,
        "kind": kind.value,
        "seq": place.seq,
        "tenant_id": place.tenant_id,
    }


def _text(kind: Kind, place: Place) -> bytes:
    return orjson.dumps(_columns(kind, place))
