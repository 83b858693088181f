"""Fixtures every kind of test may use."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.backend import NatsServer, PostgresServer, running_nats, running_postgres


@pytest.fixture(scope="session")
async def postgres_server() -> AsyncIterator[PostgresServer]:
    """One PostgreSQL for the session; take a database of it per test."""
    with running_postgres() as server:
        yield server
        await server.drop_all()


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """One NATS with JetStream for the session."""
    with running_nats() as server:
        yield server


@pytest.fixture
async def empty_database(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """The admin URL of an empty database of this test's own."""
    dsn = await postgres_server.create_database()
    yield dsn
    await postgres_server.drop_database(dsn)
