"""Who calls, as the server found it out."""

from __future__ import annotations

import enum
from contextvars import ContextVar
from dataclasses import dataclass

from hango_platform.errors import Unauthenticated


class Role(enum.IntEnum):
    """What a user may do; a higher role may do all that a lower one may. Values are those of the
    proto.
    """

    MEMBER = 1
    ADMIN = 2
    OWNER = 3

    @property
    def may_decide(self) -> bool:
        """Whether this role decides, sees the whole tenant and reads its audit."""
        return self >= Role.ADMIN

    @classmethod
    def named(cls, name: str) -> Role:
        """The role of this lower-case name. Raises KeyError."""
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user."""

    tenant_id: str
    tenant: str
    user_id: str
    role: Role
    user_name: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The other end: a service (or the operator), or a user, directly or through the gateway."""

    service: str
    principal: Principal | None = None


_current: ContextVar[Caller] = ContextVar("caller")


def current() -> Caller:
    """The caller of the call that is being answered."""
    return _current.get()


def principal() -> Principal:
    """The user who calls. Raises Unauthenticated where no user does."""
    found = _current.get().principal
    if found is None:
        raise Unauthenticated
    return found


def become(caller: Caller) -> None:
    """Set by the access interceptor."""
    _current.set(caller)
