"""One service for the tests of this folder; each test makes tenants of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.support.approvals import Approvals, Tenant, migrate, running
from tests.support.backend import NatsServer, PostgresServer


@pytest.fixture
async def dsn(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """A migrated database of this test's own."""
    made = await postgres_server.database_from_template("approvals", migrate)
    yield made
    await postgres_server.drop_database(made)


@pytest.fixture(scope="session")
async def service(
    postgres_server: PostgresServer, nats_server: NatsServer
) -> AsyncIterator[Approvals]:
    """The service, shared: what tests do must not depend on other tenants."""
    made = await postgres_server.database_from_template("approvals", migrate)
    async with running(made, nats_server.url) as approvals:
        yield approvals


@pytest.fixture
async def tenant(service: Approvals) -> Tenant:
    """A tenant of this test's own."""
    return await service.tenant()
