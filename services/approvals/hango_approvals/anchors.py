"""The anchor file: signed heads of all chains, outside the database."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from hango_approvals.domain.signing import Kind, SignedPlace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hango_approvals.domain.signing import Signer


class AnchorFile:
    """JSON lines, only ever appended to. Whoever rewrites a chain in the database would have to
    rewrite this file too, and has not its key.
    """

    def __init__(self, path: Path, signer: Signer) -> None:
        self._path = path
        self._signer = signer

    async def append(self, heads: Sequence[SignedPlace]) -> None:
        """Write lines that are on the disk when this returns. Raises OSError."""
        await asyncio.to_thread(self._append, b"".join(head.line() for head in heads))

    async def newest(self, tenant_id: str) -> tuple[int, str] | None:
        """The number and hash of the newest head of a tenant that is soundly signed. Raises
        OSError.
        """
        return await asyncio.to_thread(self._newest, tenant_id)

    def _append(self, lines: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, lines)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _newest(self, tenant_id: str) -> tuple[int, str] | None:
        if not self._path.exists():
            return None
        needle = tenant_id.encode()
        best: SignedPlace | None = None
        with self._path.open("rb") as file:
            for line in file:
                found = SignedPlace.of_line(line) if needle in line else None
                if found is None or found.place.tenant_id != tenant_id:
                    continue
                newer = best is None or found.place.seq > best.place.seq
                if newer and self._signer.holds(found, Kind.HEAD):
                    best = found
        return (best.place.seq, best.place.hash) if best is not None else None
