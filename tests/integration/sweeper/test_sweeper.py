"""The sweeper against servers that record what it asks of them."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2, approvals_pb2_grpc
from hango.runs.v1 import runs_pb2, runs_pb2_grpc
from hango_platform import errors
from hango_platform.lifecycle import Tasks
from hango_platform.rpc.server import Server
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry.metrics import Metrics
from hango_sweeper.app import start
from hango_sweeper.settings import Settings
from hango_sweeper.sweeps import LIMIT

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from hango_platform.rpc.caller import Principal

KEY = "k" * 32
SOON = timedelta(milliseconds=10)
A, R = approvals_pb2, runs_pb2
SERVICES = (
    A.DESCRIPTOR.services_by_name["ApprovalsMaintenanceService"],
    R.DESCRIPTOR.services_by_name["RunsMaintenanceService"],
)


class Owners:
    """What there is to do, by method; each call does `limit` of it at most."""

    def __init__(self) -> None:
        self.todo: dict[str, int] = {}
        self.asked: list[str] = []
        self.faults = A.CheckApprovalsResponse()

    def __getattr__(self, method: str) -> Any:
        if not method[0].isupper():
            raise AttributeError(method)

        async def answer(request: Any, _context: object) -> Any:
            self.asked.append(method)
            module = A if hasattr(A, f"{method}Response") else R
            response = getattr(module, f"{method}Response")
            if method == "CheckApprovals":
                return self.faults
            done = min(self.todo.get(method, 0), request.limit)
            self.todo[method] = self.todo.get(method, 0) - done
            return response(**{response.DESCRIPTOR.fields[-1].name: done})

        return answer


async def nobody(_credential: str) -> Principal:
    raise errors.Unauthenticated


@asynccontextmanager
async def serving(owners: Owners, addr: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Both maintenance services on one port, with the access rules of their methods."""
    servicer: Any = owners  # answers every method
    add_a = approvals_pb2_grpc.add_ApprovalsMaintenanceServiceServicer_to_server
    add_r = runs_pb2_grpc.add_RunsMaintenanceServiceServicer_to_server
    server = Server(
        [
            (SERVICES[0], lambda server: add_a(servicer, server)),
            (SERVICES[1], lambda server: add_r(servicer, server)),
        ],
        authenticate=nobody,
        internal=Tokens(KEY, "approvals"),
        metrics=Metrics(),
    )
    yield await server.start(addr)
    await server.stop(0)


@asynccontextmanager
async def sweeping(addr: str) -> AsyncIterator[dict[str, Any]]:
    """A sweeper in this process; its addresses."""
    settings = Settings.model_validate(
        {
            "internal_key": KEY,
            "approvals_addr": addr,
            "runner_addr": addr,
            "approval_sweep_interval": SOON,
            "reap_interval": SOON,
            "reconcile_interval": SOON,
            "orphan_interval": SOON,
            "prune_interval": SOON,
            "check_interval": SOON,
        }
    )
    async with AsyncExitStack() as stack:
        tasks = Tasks()
        stack.push_async_callback(tasks.stop)
        yield dict(await start(settings, stack, tasks))
        assert not tasks.failed.done()


ALL = {
    "ExpireSuspensions",
    "ReconcileSuspensions",
    "PruneApprovals",
    "CheckApprovals",
    "ReapRuns",
    "ReconcileRuns",
    "PruneRuns",
}


async def test_it_calls_every_maintenance_method_again_and_again() -> None:
    owners = Owners()
    assert {m.name for s in SERVICES for m in s.methods} == ALL

    async def all_twice() -> bool:
        return all(owners.asked.count(method) >= 2 for method in ALL)

    async with serving(owners) as addr, sweeping(addr):
        await eventually(all_twice)


async def test_a_round_goes_on_until_nothing_is_left_and_two_sweepers_do_no_harm() -> None:
    owners = Owners()
    owners.todo = dict.fromkeys(ALL, 5 * LIMIT + 1)

    async def all_done() -> bool:
        return all(owners.todo[method] == 0 for method in ALL - {"CheckApprovals"})

    async with serving(owners) as addr, sweeping(addr), sweeping(addr):
        await eventually(all_done)


async def test_it_goes_on_after_an_owner_was_away() -> None:
    owners = Owners()
    async with AsyncExitStack() as stack:
        async with serving(owners) as addr:
            await stack.enter_async_context(sweeping(addr))

            async def asked() -> bool:
                return bool(owners.asked)

            await eventually(asked)
        owners.asked.clear()
        async with serving(owners, addr):
            await eventually(asked)


async def test_faults_are_an_error_in_the_log_and_a_metric(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owners = Owners()
    owners.faults = A.CheckApprovalsResponse(broken_chains=2)

    async def told() -> list[logging.LogRecord]:
        return [r for r in caplog.records if r.levelno == logging.ERROR]

    async with serving(owners) as addr, sweeping(addr) as addresses:

        async def counted() -> bool:
            page = await asyncio.to_thread(fetch, addresses["metrics"])
            return (
                'hango_approvals_faults{fault="broken_chains"} 2.0' in page
                and 'hango_sweeps_total{outcome="ok",sweep="ReapRuns"}' in page
            )

        record = (await eventually(told))[0]
        await eventually(counted)
    assert vars(record)["broken_chains"] == 2


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
        return text
