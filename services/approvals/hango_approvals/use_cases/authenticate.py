"""Whose credential this is."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hango_platform.errors import Unauthenticated, Unavailable

if TYPE_CHECKING:
    from hango_approvals.postgres.directory import Credential
    from hango_approvals.postgres.store import Store

log = logging.getLogger(__name__)

_FLUSH_SECONDS = 5.0


class Authenticate:
    """Resolves API keys. That a key was used is noted later, and at most once a minute."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: set[str] = set()

    async def __call__(self, secret: str) -> Credential:
        """The key's user. Raises Unauthenticated for a key that is unknown, revoked, expired or a
        disabled user's, without a difference.
        """
        async with self._store.system() as work:
            found = await work.directory.credential(secret)
        if found is None:
            raise Unauthenticated
        if found.unseen:
            self._seen.add(found.key_id)
        return found

    async def note_uses(self) -> None:
        """Write down the uses of keys, for ever."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write down the uses so far."""
        seen, self._seen = self._seen, set()
        if not seen:
            return
        try:
            async with self._store.system() as work:
                await work.directory.touch(sorted(seen))
        except Unavailable:
            log.warning("uses of keys were not noted", extra={"keys": len(seen)})
