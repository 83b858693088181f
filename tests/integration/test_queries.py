"""Every statement in every `.sql` file is one that PostgreSQL takes, on the migrated schema."""

import re

import asyncpg
import pytest
from hango_platform.postgres.migrate import Migrator
from hango_platform.postgres.queries import Query, load

from tests.support.backend import PostgresServer

PACKAGES = ("hango_approvals.postgres", "hango_runner.postgres")
SHARED = "hango_platform.outbox"
CASES = [(p, q) for p in PACKAGES for q in (*load(p).all(), *load(SHARED).all())]


@pytest.mark.parametrize(
    ("package", "query"), CASES, ids=[f"{p.split('.')[0]}-{q.name}" for p, q in CASES]
)
async def test_it_is_prepared(postgres_server: PostgresServer, package: str, query: Query) -> None:
    connection = await asyncpg.connect(await migrated(postgres_server, package))
    try:
        statement = await connection.prepare(query.sql)
        parameters, columns = statement.get_parameters(), statement.get_attributes()
    finally:
        await connection.close()
    described = {int(n) for n in re.findall(r"\$(\d+) ", comments(query))}
    assert described == set(range(1, len(parameters) + 1)), "each parameter is described"
    names = [c.name for c in columns]
    assert bool(names) == (query.kind != "exec"), "only what is read gives columns"
    assert len(set(names)) == len(names), "a column hides another one"


def comments(query: Query) -> str:
    return "\n".join(line for line in query.sql.splitlines() if line.startswith("--")) + " "


async def migrated(server: PostgresServer, package: str) -> str:
    """One database a package for all cases: nothing is executed there."""

    async def prepare(dsn: str) -> None:
        await Migrator(dsn, package).up()

    if package not in _databases:
        _databases[package] = await server.database_from_template(package, prepare)
    return _databases[package]


_databases: dict[str, str] = {}
