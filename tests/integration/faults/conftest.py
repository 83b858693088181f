"""What the tests of faults share: a process that forks services, brokers to be killed."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hango_cli.embedded import EmbeddedNats

from tests.support.cluster import running_cluster
from tests.support.counting import QUICK, Ledger
from tests.support.zygote import running_zygote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from tests.support.backend import PostgresServer
    from tests.support.cluster import Cluster
    from tests.support.zygote import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Forks services."""
    with running_zygote() as running:
        yield running


@contextmanager
def mortal_nats() -> Iterator[EmbeddedNats]:
    """A broker to be killed; clusters on one broker would hear each other."""
    with tempfile.TemporaryDirectory(prefix="hango-test-") as folder:
        server = EmbeddedNats(Path(folder) / "nats", durable=False)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def nats() -> Iterator[EmbeddedNats]:
    """The test's own broker."""
    with mortal_nats() as server:
        yield server


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """What the tools of this test did."""
    return Ledger(tmp_path, QUICK)


@pytest.fixture
def clusters(
    postgres_server: PostgresServer,
    nats: EmbeddedNats,
    zygote: Zygote,
    ledger: Ledger,
    tmp_path: Path,
) -> Callable[..., AbstractAsyncContextManager[Cluster]]:
    """Makes the cluster of a test, with the settings and faults it asks for."""

    @asynccontextmanager
    async def make(**more: Any) -> AsyncIterator[Cluster]:
        options = {"tool_servers": ledger.tool_servers, **more}
        url = options.pop("nats_url", nats.url)
        async with running_cluster(postgres_server, url, zygote, tmp_path, **options) as cluster:
            yield cluster

    return make
