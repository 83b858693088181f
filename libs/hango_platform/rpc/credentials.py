"""Credentials that another service resolves, remembered for a second."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from hango_platform import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango_platform.rpc.caller import Principal

_LIFE = 1.0
_KEPT = 10_000


class CachedCredentials:
    """Asks `resolve` at most once a second for each credential; a refusal is never remembered.

    So a revoked key works for at most one second more.
    """

    def __init__(self, resolve: Callable[[str], Awaitable[Principal]]) -> None:
        self._resolve = resolve
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, credential: str) -> Principal:
        """Whose credential this is. Raises what `resolve` raises."""
        key = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(key)
        now = clock.monotonic()
        if known is not None and now < known[0]:
            return known[1]
        principal = await self._resolve(credential)
        self._known[key] = (now + _LIFE, principal)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return principal
