"""The PostgreSQL and NATS that tests run against, and databases made from templates.

Both come from the embedded wheels, one of each per test process, unless these name others:
`HANGO_TEST_POSTGRES_DSN` (a superuser's URL), `HANGO_TEST_NATS_URL`.
"""

import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from hango_cli.embedded import EmbeddedNats, EmbeddedPostgres

Prepare = Callable[[str], Awaitable[object]]


@dataclass
class PostgresServer:
    """A server whose `admin_dsn` may create databases and roles."""

    admin_dsn: str
    _made: list[str] = field(default_factory=list)
    _templates: dict[str, str] = field(default_factory=dict)

    def dsn(self, database: str) -> str:
        """The administrator's URL of another database."""
        return urlsplit(self.admin_dsn)._replace(path=f"/{database}").geturl()

    async def create_database(self, template: str | None = None) -> str:
        """Create a database with a fresh name, a copy of `template` if given; its admin URL."""
        name = f"test_{uuid.uuid4().hex}"
        source = f' TEMPLATE "{template}"' if template else ""
        await self._execute(f'CREATE DATABASE "{name}"{source}')
        self._made.append(name)
        return self.dsn(name)

    async def drop_database(self, dsn: str) -> None:
        """Drop a database made here, ending the sessions that are still in it."""
        name = urlsplit(dsn).path.removeprefix("/")
        self._made.remove(name)
        await self._execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    async def database_from_template(self, name: str, prepare: Prepare) -> str:
        """A new database like the one that `prepare(admin_dsn)` made of an empty one.

        `prepare` runs once per `name` and process, must leave no connection open, and may create
        roles. Usually: `dsn = await postgres_server.database_from_template("approvals", migrate)`.
        """
        if name not in self._templates:
            dsn = await self.create_database()
            await prepare(dsn)
            self._templates[name] = urlsplit(dsn).path.removeprefix("/")
        return await self.create_database(self._templates[name])

    async def drop_all(self) -> None:
        """Drop every database made here, templates too."""
        self._templates.clear()
        for name in list(self._made):
            await self.drop_database(self.dsn(name))

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.admin_dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@dataclass(frozen=True)
class NatsServer:
    """`url` may do everything; `reader_url` may only read `hango.>`, None if there is no such."""

    url: str
    reader_url: str | None


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """The server of this test process; an embedded one ends, and its data goes, at the end."""
    if given := os.environ.get("HANGO_TEST_POSTGRES_DSN"):
        yield PostgresServer(given)
        return
    with tempfile.TemporaryDirectory(prefix="hango-test-") as folder:
        server = EmbeddedPostgres(
            Path(folder) / "postgres", durable=False, settings={"max_connections": "200"}
        )
        server.start()
        try:
            yield PostgresServer(server.superuser_dsn())
        finally:
            server.stop()


@contextmanager
def running_nats() -> Iterator[NatsServer]:
    """The NATS server of this test process, likewise."""
    if given := os.environ.get("HANGO_TEST_NATS_URL"):
        yield NatsServer(given, reader_url=None)
        return
    with tempfile.TemporaryDirectory(prefix="hango-test-") as folder:
        server = EmbeddedNats(Path(folder) / "nats", durable=False)
        server.start()
        try:
            yield NatsServer(server.url, server.reader_url)
        finally:
            server.stop()
