"""A gateway over fake owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_owners import Edge, gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer


@pytest.fixture(scope="session")
async def running(nats_server: NatsServer) -> AsyncIterator[Edge]:
    async with gateway(nats_server.url) as found:
        yield found


@pytest.fixture
def edge(running: Edge) -> Edge:
    """One gateway for all tests; its owners begin anew with each."""
    running.owners.reset()
    return running
