"""A paused run is rows in a table and nothing else."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from hango.common.v1 import types_pb2
from hango_approvals import app as approvals_app
from hango_platform.postgres.pool import Database
from hango_platform.telemetry.metrics import Metrics
from hango_runner import app as runner_app
from hango_runner.agent.state import Call, Run, Suspension
from hango_runner.wakes import Wakes
from hango_runner.worker import Worker

from tests.integration.main_job.conftest import tools_listed
from tests.support.scripts import GATED, agent, fire, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.counting import Ledger

PAUSED = 50


class Parts:
    """The parts of the services under test, kept as they are made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: dict[type, list[Any]] = {}
        for app, kinds in (
            (runner_app, (Database, Worker, Wakes, Metrics)),
            (approvals_app, (Database,)),
        ):
            for kind in kinds:
                patch.setattr(app, kind.__name__, self._keeping(kind))

    def _keeping(self, kind: type) -> Any:
        def make(*args: Any, **more: Any) -> Any:
            made = kind(*args, **more)
            self.made.setdefault(kind, []).append(made)
            return made

        return make

    def held(self) -> dict[str, int]:
        """What is in use for runs at this moment, by name; all 0 where nothing is."""
        (worker,), (wakes,) = self.made[Worker], self.made[Wakes]
        (metrics,) = self.made[Metrics]
        sizes = [database.size() for database in self.made[Database]]
        gc.collect()
        alive = [type(o) for o in gc.get_objects()]
        return {
            "slots": worker.busy("default"),
            "slots shown": int(metrics.lane_slots.labels("default", "busy")._value.get()),
            "held by the worker": len(worker._held),
            "waiters": len(wakes) + len(wakes._waiting),
            "connections": sum(s.size - s.free for s in sizes),
            **{kind.__name__: alive.count(kind) for kind in (Run, Call, Suspension)},
        }


def tasks() -> int:
    """How many tasks the loop has."""
    return len([t for t in asyncio.all_tasks() if not t.done()])


async def test_a_paused_run_holds_nothing(
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Item 10: a paused run holds no slot, task, connection or memory: 50 of them, more than the
    lane has slots; then all of them go on to their ends.
    """
    parts = Parts(monkeypatch)
    async with running_stack(
        postgres_server, nats_server, tool_servers=ledger.tool_servers
    ) as stack:
        await tools_listed(stack)
        admin = stack.users["admin"]
        spec = agent(turn(fire("c1", "leak")), interrupt_on=GATED)
        await admin.save_agent(spec)
        warm = await admin.start(spec["name"])
        await admin.decide_all(warm.id, "approve")
        await admin.finished(warm.id)
        idle = dict.fromkeys(parts.held(), 0)

        async def at_rest() -> bool:
            return parts.held() == idle

        await eventually(at_rest, what="everything is let go of")
        before = tasks()

        async def as_before() -> bool:
            return tasks() <= before and await at_rest()

        runs = await asyncio.gather(*(admin.start(spec["name"]) for _ in range(PAUSED)))
        assert {r.state for r in runs} == {types_pb2.RUN_STATE_AWAITING_APPROVAL}
        await eventually(as_before, what=f"{PAUSED} paused runs hold nothing")
        assert ledger.count("leak") == 1
        await asyncio.gather(*(admin.decide_all(r.id, "approve") for r in runs))
        over = await asyncio.gather(*(admin.finished(r.id) for r in runs))
        assert {r.state for r in over} == {types_pb2.RUN_STATE_SUCCEEDED}
        await eventually(as_before, what="finished runs hold nothing")
        assert ledger.count("leak") == PAUSED + 1
