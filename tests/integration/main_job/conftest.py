"""Services that the tests of a module share, with a tool server that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hango_runner import app as runner_app

from tests.support.counting import Ledger
from tests.support.scripts import FIRE, Recorder
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Client, Stack


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """What the counting server of this module has done."""
    return Ledger(tmp_path_factory.mktemp("counting"))


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """What the models of this module were asked."""
    with pytest.MonkeyPatch.context() as patch:
        made = Recorder()
        patch.setattr(runner_app, "model_for", made)
        yield made


@pytest.fixture(scope="module")
async def stack(
    postgres_server: PostgresServer, nats_server: NatsServer, ledger: Ledger, recorder: Recorder
) -> AsyncIterator[Stack]:
    """A and R, once a module. Only one stack may live at a time: they would hear each other's
    hints.
    """
    async with running_stack(
        postgres_server,
        nats_server,
        tool_servers=ledger.tool_servers,
        runner={"lanes": "default:16,narrow:1"},
    ) as running:
        await tools_listed(running)
        yield running


@pytest.fixture
def admin(stack: Stack) -> Client:
    """May decide."""
    return stack.users["admin"]


@pytest.fixture
def member(stack: Stack) -> Client:
    """Starts the runs."""
    return stack.users["member"]


async def tools_listed(stack: Stack) -> None:
    """Wait until the counting server has been heard of."""

    async def listed() -> bool:
        return FIRE in await stack.users["admin"].tools()

    await eventually(listed, what="the counting server lists its tools")
