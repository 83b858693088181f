"""Tenants, their users, and the users' keys."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.errors import InvalidRequest, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hango_platform.rpc.caller import Role

KEY_PREFIX = "hk"
_SHOWN = 10
_MAX_NAME = 128
_MIN_SECRET = 32
_SLUG = re.compile(r"[a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant; `name` is its slug."""

    id: str
    name: str
    require_second_party: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A user of a tenant."""

    id: str
    name: str
    role: Role
    disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of a user; of its secret only the prefix is known."""

    id: str
    user_id: str
    name: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """What an OIDC token says of its user. `subject` is the issuer and its name for the user."""

    tenant: str
    role: Role
    subject: str
    name: str
    expires_at: datetime


def key_digest(secret: str) -> bytes:
    """What is stored of a secret. It has 256 random bits, so a plain SHA-256 cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def key_prefix(secret: str) -> str:
    """What may be shown of a secret, to tell keys apart."""
    return secret[:_SHOWN]


def check_name(name: str, pointer: str = "/name") -> str:
    """The name of a user or a key. Raises InvalidRequest."""
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable() or name != name.strip():
        why = f"must be 1 to {_MAX_NAME} printable characters without white space around them"
        raise InvalidRequest(violations=[Violation(pointer, why)])
    return name


def check_scopes(scopes: Sequence[str]) -> bool:
    """Whether a key with these scopes may only read. Raises InvalidRequest."""
    if list(scopes) not in ([], ["*"], ["read"]):
        raise InvalidRequest(violations=[Violation("/scopes", 'must be ["*"] or ["read"]')])
    return list(scopes) == ["read"]


def check_slug(name: str) -> str:
    """The name of a tenant. Raises InvalidRequest."""
    if not _SLUG.fullmatch(name):
        why = "must be 1 to 63 of a-z, 0-9 and -"
        raise InvalidRequest(violations=[Violation("/name", why)])
    return name


def check_secret(secret: str, pointer: str) -> str:
    """The secret of a key that is brought along. Raises InvalidRequest."""
    if not secret.startswith(f"{KEY_PREFIX}_") or not _MIN_SECRET <= len(secret) <= _MAX_NAME:
        why = f"must start with {KEY_PREFIX}_ and have {_MIN_SECRET} to {_MAX_NAME} characters"
        raise InvalidRequest(violations=[Violation(pointer, why)])
    return secret
