"""Threads in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.errors import NotFound
from hango_platform.postgres.queries import load

from hango_runner.domain.thread import Thread
from hango_runner.postgres.rows import text_or_none
from hango_runner.postgres.visible import only_of, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row, Transaction
    from hango_platform.rpc.caller import Principal

SQL = load(__package__)


class SqlThreads:
    """Reads conversations for people who may see them: their creators, owners and admins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_page(
        self, after: tuple[datetime, str] | None, limit: int, by: Principal
    ) -> list[Thread]:
        """Threads, newest first."""
        async with self._database.tenant(by.tenant_id) as tx:
            rows = await tx.many(
                SQL.list_threads, by.tenant_id, only_of(by), *(after or (None, None)), limit
            )
        return [_thread(r) for r in rows]

    async def get(self, thread_id: str, by: Principal) -> Thread:
        """One of them. Raises NotFound."""
        async with self._database.tenant(by.tenant_id) as tx:
            return _thread(await _seen(tx, thread_id, by))

    async def messages(
        self, thread_id: str, after: tuple[datetime, str, int] | None, limit: int, by: Principal
    ) -> Sequence[Row]:
        """The conversation, oldest first, of the runs that the caller may see. Raises NotFound."""
        async with self._database.tenant(by.tenant_id) as tx:
            await _seen(tx, thread_id, by)
            return await tx.many(
                SQL.thread_messages,
                by.tenant_id,
                thread_id,
                only_of(by),
                *(after or (None, None, None)),
                limit,
            )


async def _seen(tx: Transaction, thread_id: str, by: Principal) -> Row:
    # PostgreSQL has no text with a NUL, so no thread has such a name.
    row = None if "\0" in thread_id else await tx.one(SQL.get_thread, by.tenant_id, thread_id)
    if row is None or not visible(row, by):
        raise NotFound
    return row


def _thread(row: Row) -> Thread:
    return Thread(
        id=row["id"],
        agent=row["agent"],
        created_by=str(row["created_by"]),
        created_at=row["created_at"],
        runs=row["runs"],
        live_run_id=text_or_none(row["live_run_id"]),
    )
