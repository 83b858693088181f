"""Who calls, as the server found it out."""

from __future__ import annotations

import enum
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.errors import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango.identity.v1 import identity_pb2


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
    read_only: bool = False
    "The credential may change nothing."
    require_second_party: bool = False
    "The tenant demands that somebody else than a run's creator decides."

    @classmethod
    def read(cls, found: identity_pb2.Principal) -> Principal:
        """What the approvals service says of a credential."""
        return cls(
            tenant_id=found.tenant_id,
            tenant=found.tenant,
            user_id=found.user_id,
            role=Role(found.role),
            user_name=found.user_name,
            read_only=found.read_only,
            require_second_party=found.require_second_party,
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """The other end: a service (or the operator), or a user, directly or through the gateway."""

    service: str
    principal: Principal | None = None


_current: ContextVar[Caller] = ContextVar("caller")
_recheck: ContextVar[Callable[[], Awaitable[Caller]]] = ContextVar("recheck")


def current() -> Caller:
    """The caller of the call that is being answered."""
    return _current.get()


def principal() -> Principal:
    """The user who calls. Raises Unauthenticated where no user does."""
    found = _current.get().principal
    if found is None:
        raise Unauthenticated
    return found


async def recheck() -> Principal:
    """The user who calls, whose credential is looked at again: for streams, which may outlive it.

    Raises Unauthenticated, Forbidden, Unavailable.
    """
    _current.set(await _recheck.get()())
    return principal()


def become(caller: Caller, again: Callable[[], Awaitable[Caller]]) -> None:
    """Set by the access interceptor; `again` finds out anew who calls."""
    _current.set(caller)
    _recheck.set(again)
