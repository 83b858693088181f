"""Short-lived tokens that services prove themselves to each other with.

A JWT (HS256 under the deployment's internal key) that names the calling service and, from the
gateway, the user it calls for. It lives for a minute.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import jwt

from hango_platform.errors import Unauthenticated
from hango_platform.rpc.caller import Caller, Principal, Role

HEADER = "hango-internal"
_AUDIENCE = "hango-internal"
_LIFE = 60
_LEEWAY = 10
_KEPT = 4096


class Tokens:
    """Makes and reads internal tokens."""

    def __init__(self, key: str, service: str) -> None:
        self._key = key
        self._service = service
        self._made: dict[Principal | None, tuple[float, str]] = {}
        self._known: dict[str, tuple[float, Caller]] = {}

    def make(self, principal: Principal | None = None) -> str:
        """A token of this service, for this user if one is given; reused for half of its life."""
        now = time.time()
        made = self._made.get(principal)
        if made is not None and made[0] > now:
            return made[1]
        claims: dict[str, Any] = {
            "iss": self._service,
            "aud": _AUDIENCE,
            "iat": int(now),
            "exp": int(now) + _LIFE,
        }
        if principal is not None:
            claims["principal"] = {**asdict(principal), "role": int(principal.role)}
        token = jwt.encode(claims, self._key, algorithm="HS256")
        if len(self._made) >= _KEPT:
            self._made.clear()
        self._made[principal] = (now + _LIFE / 2, token)
        return token

    def read(self, token: str) -> Caller:
        """Who made this token, and for whom. Raises Unauthenticated."""
        known = self._known.get(token)
        if known is not None and known[0] > time.time():
            return known[1]
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=["HS256"],
                audience=_AUDIENCE,
                leeway=_LEEWAY,
                options={"require": ["iss", "aud", "iat", "exp"]},
            )
            found = claims.get("principal")
            principal = Principal(**{**found, "role": Role(found["role"])}) if found else None
        except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
            msg = "the internal token is not valid"
            raise Unauthenticated(msg) from None
        caller = Caller(claims["iss"], principal)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[token] = (claims["exp"], caller)
        return caller
