"""Credentials that another service resolves, remembered for a second."""

from __future__ import annotations

import asyncio
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
    """Asks `resolve` at most once a second for each credential, however many ask for it at the same
    moment; a refusal is never remembered.

    So a revoked key works for at most one second more.
    """

    def __init__(self, resolve: Callable[[str], Awaitable[Principal]]) -> None:
        self._resolve = resolve
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Principal]] = {}

    async def __call__(self, credential: str) -> Principal:
        """Whose credential this is. Raises what `resolve` raises."""
        key = hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(key)
        if known is not None and clock.monotonic() < known[0]:
            return known[1]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key, credential))
            # Also where all who asked have gone away: nobody else would look at its error.
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, credential: str) -> Principal:
        asked_at = clock.monotonic()
        try:
            principal = await self._resolve(credential)
        finally:
            del self._asking[key]
        self._known[key] = (asked_at + _LIFE, principal)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return principal
