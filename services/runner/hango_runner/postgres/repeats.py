"""Requests that may be repeated: the first answer is kept, in the transaction of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
from hango_platform.errors import IdempotencyInFlight, IdempotencyMismatch
from hango_platform.postgres.queries import load

if TYPE_CHECKING:
    from hango_platform.postgres.transaction import Transaction
    from hango_platform.rpc.caller import Principal

    from hango_runner.domain.run import Idempotency

SQL = load(__package__)


async def begin(tx: Transaction, by: Principal, repeat: Idempotency | None) -> bytes | None:
    """Note the request; the first answer where it was made before.

    Raises IdempotencyInFlight, IdempotencyMismatch.
    """
    if repeat is None:
        return None
    try:
        row = await tx.one(
            SQL.begin_request, by.tenant_id, by.user_id, repeat.route, repeat.key, repeat.digest
        )
    except asyncpg.LockNotAvailableError:
        raise IdempotencyInFlight from None
    return None if row is not None else await earlier(tx, by, repeat)


async def earlier(tx: Transaction, by: Principal, repeat: Idempotency) -> bytes | None:
    """The answer to the first request with this key. Raises IdempotencyMismatch."""
    row = await tx.one(SQL.earlier_request, by.tenant_id, by.user_id, repeat.route, repeat.key)
    if row is None:
        return None
    if row["digest"] != repeat.digest:
        raise IdempotencyMismatch
    answer: bytes | None = row["answer"]
    return answer


async def end(tx: Transaction, by: Principal, repeat: Idempotency | None, answer: bytes) -> None:
    """Keep the answer."""
    if repeat is not None:
        await tx.exec(SQL.end_request, by.tenant_id, by.user_id, repeat.route, repeat.key, answer)
