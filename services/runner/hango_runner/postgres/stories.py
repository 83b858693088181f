"""Transcripts and stories in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.errors import NotFound
from hango_platform.ids import is_id
from hango_platform.postgres.queries import load

from hango_runner.postgres.forks import checkpoint_of
from hango_runner.postgres.visible import seen, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row
    from hango_platform.rpc.caller import Principal

SQL = load(__package__)

_OVER = ("succeeded", "failed", "cancelled")


class SqlStories:
    """Reads what the loop has written, for people who may see the run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def messages(
        self, run_id: str, after: int, limit: int, by: Principal, checkpoint_id: str | None = None
    ) -> Sequence[Row]:
        """The transcript after this number, up to a checkpoint of the run. Raises NotFound."""
        async with self._database.tenant(by.tenant_id) as tx:
            await seen(tx, run_id, by)
            upto = None
            if checkpoint_id is not None:
                upto = (await checkpoint_of(tx, run_id, checkpoint_id, by)).message_count
            return await tx.many(SQL.list_messages, by.tenant_id, run_id, after, limit, upto)

    async def events(
        self, run_id: str, after: int, limit: int, by: Principal
    ) -> tuple[Sequence[Row], bool]:
        """The story after this number, and whether nothing comes behind it. Raises NotFound."""
        if not is_id(run_id):
            raise NotFound
        async with self._database.tenant(by.tenant_id) as tx:
            rows = await tx.many(SQL.list_events, by.tenant_id, run_id, after, limit)
        # The run's own row comes along in each, and alone (seq null) where nothing is new.
        if not rows or not visible(rows[0], by):
            raise NotFound
        events = [r for r in rows if r["seq"] is not None]
        last = events[-1]["seq"] if events else after
        return events, rows[0]["state"] in _OVER and last >= rows[0]["next_event_seq"] - 1

    async def states(self, run_ids: Sequence[str]) -> Sequence[Row]:
        """The states of these runs, over all tenants, for A."""
        async with self._database.system() as tx:
            return await tx.many(SQL.run_states, [r for r in run_ids if is_id(r)])
