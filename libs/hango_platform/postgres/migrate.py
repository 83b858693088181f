"""A small migrator: `NNNN_name.up.sql` and `.down.sql`, one transaction a file, one migrator at a
time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import asyncpg

from hango_platform.postgres.queries import load

SQL = load(__package__)
_LOCK = 0x68616E676F  # "hango"


class MigrationError(RuntimeError):
    """The database and the migrations do not fit together."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. `applied` tells whether the database has it."""

    version: int
    name: str
    up: str
    down: str
    applied: bool = False

    @property
    def checksum(self) -> str:
        """SHA-256 of the way up, hex."""
        return hashlib.sha256(self.up.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """The migrations of a package's `migrations` folder, in order. Raises MigrationError for gaps
    or missing ways down.
    """
    folder = files(package) / "migrations"
    texts = {
        f.name: f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".sql")
    }
    found = []
    for position, name in enumerate(sorted(n for n in texts if n.endswith(".up.sql")), 1):
        stem = name.removesuffix(".up.sql")
        version, _, title = stem.partition("_")
        if int(version) != position or f"{stem}.down.sql" not in texts:
            msg = f"{package}: {name} is out of line, or has no way down"
            raise MigrationError(msg)
        found.append(Migration(position, title, texts[name], texts[f"{stem}.down.sql"]))
    return found


class Migrator:
    """Moves one database up and down. Needs the database owner's DSN."""

    def __init__(self, dsn: str, package: str) -> None:
        self._dsn = dsn
        self._migrations = load_migrations(package)

    async def up(self) -> list[Migration]:
        """Apply what is missing; the steps that were taken."""
        async with _Session(self._dsn) as connection:
            done = await self._applied(connection)
            todo = [m for m in self._migrations if m.version not in done]
            for m in todo:
                async with connection.transaction():
                    await connection.execute(m.up)
                    await connection.execute(
                        SQL.record_migration.sql, m.version, m.name, m.checksum
                    )
            return todo

    async def down(self, steps: int) -> list[Migration]:
        """Take the last steps back; those that were taken back."""
        async with _Session(self._dsn) as connection:
            done = await self._applied(connection)
            undo = [m for m in reversed(self._migrations) if m.version in done][:steps]
            for m in undo:
                async with connection.transaction():
                    await connection.execute(m.down)
                    await connection.execute(SQL.forget_migration.sql, m.version)
            return undo

    async def status(self) -> list[Migration]:
        """Every migration, and whether the database has it."""
        async with _Session(self._dsn) as connection:
            done = await self._applied(connection)
        return [
            Migration(m.version, m.name, m.up, m.down, applied=m.version in done)
            for m in self._migrations
        ]

    async def _applied(self, connection: Any) -> dict[int, str]:
        done = {
            r["version"]: r["checksum"] for r in await connection.fetch(SQL.applied_migrations.sql)
        }
        known = {m.version: m for m in self._migrations}
        for version, checksum in done.items():
            if version in known and known[version].checksum != checksum:
                msg = f"migration {version} was changed after it had been applied"
                raise MigrationError(msg)
        return done


class _Session:
    """A connection that holds the migrators' lock, with the table of migrations there."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def __aenter__(self) -> Any:
        self._connection = await asyncpg.connect(self._dsn)
        await self._connection.execute(SQL.lock_migrations.sql, _LOCK)
        await self._connection.execute(SQL.create_migrations.sql)
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()
