"""What can be done inside a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hango_platform.postgres import sealing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hango_platform.postgres.queries import Query
    from hango_platform.postgres.sealing import Sealing

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

    def __init__(self, connection: Any, stats: Stats, sealing: Sealing | None = None) -> None:
        self._connection = connection
        self._stats = stats
        self._sealing = sealing
        self.hooks: list[Callable[[], None]] = []
        self.writes = False

    async def one(self, query: Query, *args: object) -> Row | None:
        """The row of a `:one` query, or None where nothing matched."""
        self._check(query, "one")
        row = await self._connection.fetchrow(query.sql, *await self._sealed(query, args))
        return row if row is None else (await self._opened(query, [row]))[0]

    async def many(self, query: Query, *args: object) -> Sequence[Row]:
        """The rows of a `:many` query."""
        self._check(query, "many")
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(
            query.sql, *await self._sealed(query, args)
        )
        return await self._opened(query, rows)

    async def exec(self, query: Query, *args: object) -> int:
        """Run an `:exec` query; the number of rows it touched."""
        self._check(query, "exec")
        status: str = await self._connection.execute(query.sql, *await self._sealed(query, args))
        tail = status.rsplit(" ", 1)[-1]
        return int(tail) if tail.isdigit() else 0

    async def _sealed(self, query: Query, args: tuple[Any, ...]) -> Sequence[Any]:
        if self._sealing is None or not query.seals:
            return args
        tenant_id = str(args[query.tenant])
        key = await self._sealing.key(self._connection, tenant_id, make=True)
        if key is None:  # pragma: no cover - it was just made
            raise LookupError(tenant_id)
        return [
            sealing.seal(arg, key, tenant_id, as_json=query.seals[n]) if n in query.seals else arg
            for n, arg in enumerate(args)
        ]

    async def _opened(
        self, query: Query, rows: Sequence[Mapping[str, Any]]
    ) -> Sequence[Mapping[str, Any]]:
        if self._sealing is None or not query.opens:
            return rows
        opens = query.opens
        found = sealing.tenants(row[name] for row in rows for name in opens)
        keys = {
            tenant_id: await self._sealing.key(self._connection, tenant_id, make=False)
            for tenant_id in found
        }
        return [
            {**row, **{n: sealing.opened(row[n], keys, inside=opens[n]) for n in opens}}
            for row in rows
        ]

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
