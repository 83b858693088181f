"""What can be done inside a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hango_platform.postgres.queries import Query

Row = Any  # asyncpg.Record: columns by name


@dataclass(slots=True)
class Stats:
    """What a database was asked so far.

    Statements are counted without BEGIN and COMMIT, commits without those of readers.
    """

    statements: int = 0
    commits: int = 0


class Transaction:
    """Runs named queries on one connection, between its BEGIN and its COMMIT."""

    def __init__(self, connection: Any, stats: Stats) -> None:
        self._connection = connection
        self._stats = stats
        self.hooks: list[Callable[[], None]] = []
        self.writes = False

    async def one(self, query: Query, *args: object) -> Row | None:
        """The row of a `:one` query, or None where nothing matched."""
        self._check(query, "one")
        return await self._connection.fetchrow(query.sql, *args)

    async def many(self, query: Query, *args: object) -> Sequence[Row]:
        """The rows of a `:many` query."""
        self._check(query, "many")
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(query.sql, *args)
        return rows

    async def exec(self, query: Query, *args: object) -> int:
        """Run an `:exec` query; the number of rows it touched."""
        self._check(query, "exec")
        status: str = await self._connection.execute(query.sql, *args)
        tail = status.rsplit(" ", 1)[-1]
        return int(tail) if tail.isdigit() else 0

    def after_commit(self, hook: Callable[[], None]) -> None:
        """Call this once the transaction is committed, and never otherwise. The hook must not
        raise.
        """
        self.hooks.append(hook)

    def _check(self, query: Query, kind: str) -> None:
        if query.kind != kind:
            msg = f"{query.name} is a :{query.kind} query"
            raise TypeError(msg)
        self._stats.statements += 1
        self.writes = self.writes or query.writes
