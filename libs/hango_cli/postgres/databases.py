"""The two databases, their owners and the services' logins, made and migrated."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
from hango_platform.postgres.migrate import MigrationError, Migrator
from hango_platform.postgres.queries import Query, load

from hango_cli.errors import Failed

SQL = load(__package__)


@dataclass(frozen=True)
class Login:
    """A role that can log in."""

    name: str
    password: str


@dataclass(frozen=True)
class Database:
    """One service's database: who owns it, and whom the service logs in as."""

    name: str
    owner: Login
    service: Login
    migrations: str
    "The package whose `migrations` folder makes its tables."

    def owner_dsn(self, admin_dsn: str) -> str:
        """The owner's URL, on the server of this one."""
        return self._dsn(admin_dsn, self.owner)

    def service_dsn(self, admin_dsn: str) -> str:
        """The service's URL, on the server of this one."""
        return self._dsn(admin_dsn, self.service)

    def _dsn(self, admin_dsn: str, login: Login) -> str:
        parts = urlsplit(admin_dsn)
        place = parts.netloc.rpartition("@")[2]
        name, password = quote(login.name, safe=""), quote(login.password, safe="")
        return parts._replace(netloc=f"{name}:{password}@{place}", path=f"/{self.name}").geturl()


async def prepare(admin_dsn: str, databases: list[Database]) -> None:
    """Make what is missing of roles, databases and tables. `admin_dsn` is a superuser's. Raises
    Failed.
    """
    try:
        await _make(admin_dsn, databases)
        migrators = [Migrator(d.owner_dsn(admin_dsn), d.migrations) for d in databases]
        await asyncio.gather(*(migrator.up() for migrator in migrators))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, MigrationError) as error:
        message = f"the databases cannot be prepared: {error}"
        raise Failed(message) from error


async def _make(admin_dsn: str, databases: list[Database]) -> None:
    connection = await asyncpg.connect(admin_dsn)
    try:
        await _run(connection, SQL.groups)
        for database in databases:
            for login in (database.owner, database.service):
                await _run(connection, SQL.login, login.name, login.password)
            await _run(connection, SQL.database, database.name, database.owner.name)
            await _run(connection, SQL.connections, database.name, database.service.name)
    finally:
        await connection.close()


async def _run(connection: Any, query: Query, *arguments: str) -> None:
    for row in await connection.fetch(query.sql, *arguments):
        await connection.execute(row["statement"])
