"""A gateway over fake owners."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hango_platform.bus.jetstream import Bus

from tests.support.fake_owners import Edge, gateway
from tests.support.waiting import eventually

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


@pytest.fixture(scope="session")
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    """What A and R would say things on."""
    bus = Bus(nats_server.url, "test")
    task = asyncio.create_task(bus.run())

    async def connected() -> bool:
        return bus.connected

    await eventually(connected)
    yield bus
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
