"""The databases of a stack: made once, migrated, and closed to everybody else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
from hango_cli.errors import Failed
from hango_cli.postgres.databases import Database, Login, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import PostgresServer


@pytest.fixture
async def databases(postgres_server: PostgresServer) -> AsyncIterator[list[Database]]:
    """Two databases with names of this test's own, not made yet."""
    mark = uuid4().hex[:8]
    made = [
        Database(
            f"t_{mark}_{service}",
            Login(f"t_{mark}_{service}_owner", "it's/a secret"),
            Login(f"t_{mark}_{service}", "an@other"),
            f"hango_{service}.postgres",
        )
        for service in ("approvals", "runner")
    ]
    yield made
    connection = await asyncpg.connect(postgres_server.admin_dsn)
    for database in made:
        await connection.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")
        for login in (database.owner, database.service):
            await connection.execute(f"DROP ROLE IF EXISTS {login.name}")
    await connection.close()


async def test_it_can_be_repeated_and_each_database_lets_in_its_own_two_logins(
    postgres_server: PostgresServer, databases: list[Database]
) -> None:
    admin = postgres_server.admin_dsn
    for _ in range(2):
        await prepare(admin, databases)
    for database, other in (databases, databases[::-1]):
        for dsn in (database.owner_dsn(admin), database.service_dsn(admin)):
            await (await asyncpg.connect(dsn)).close()
            elsewhere = urlsplit(dsn)._replace(path=f"/{other.name}").geturl()
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await asyncpg.connect(elsewhere)


async def test_the_service_has_no_right_but_in_one_of_the_two_roles(
    postgres_server: PostgresServer, databases: list[Database]
) -> None:
    admin = postgres_server.admin_dsn
    await prepare(admin, databases)
    for database, table in zip(databases, ("suspensions", "runs"), strict=True):
        connection = await asyncpg.connect(database.service_dsn(admin))
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(f"SELECT FROM {table}")
        for role in ("hango_api", "hango_system"):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL ROLE {role}")
                await connection.fetch(f"SELECT FROM {table}")
        for role in (database.owner.name, "postgres"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"SET ROLE {role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("CREATE TABLE mine ()")
        await connection.close()


async def test_the_owner_may_look_in_both_roles(
    postgres_server: PostgresServer, databases: list[Database]
) -> None:
    admin = postgres_server.admin_dsn
    await prepare(admin, databases)
    connection = await asyncpg.connect(databases[1].owner_dsn(admin))
    for role in ("hango_api", "hango_system"):
        await connection.execute(f"SET ROLE {role}")
        await connection.fetch("SELECT FROM runs")
    await connection.close()


async def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(Failed, match="cannot be prepared"):
        await prepare("postgresql://postgres@127.0.0.1:1/postgres", [])
