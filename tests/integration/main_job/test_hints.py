"""Messages may be lost, repeated, late or forged: that costs time, and nothing else."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2, runs_pb2_grpc
from hango_cli.embedded import EmbeddedNats
from hango_platform.errors import Forbidden, Unauthenticated, Unavailable

from tests.integration.main_job.conftest import tools_listed
from tests.support.backend import NatsServer
from tests.support.scripts import GATED, agent, call, fire, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.backend import PostgresServer
    from tests.support.counting import Ledger
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED


@contextmanager
def own_nats() -> Iterator[EmbeddedNats]:
    """A server that a test may stop and start."""
    with tempfile.TemporaryDirectory(prefix="hango-test-") as folder:
        server = EmbeddedNats(Path(folder), durable=False)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedNats]:
    """The broker of this module's stack."""
    with own_nats() as server:
        yield server


@pytest.fixture(scope="module")
async def stack(
    postgres_server: PostgresServer, broker: EmbeddedNats, ledger: Ledger
) -> AsyncIterator[Stack]:
    """A and R on a broker of their own."""
    server = NatsServer(broker.url, broker.reader_url)
    async with running_stack(postgres_server, server, tool_servers=ledger.tool_servers) as running:
        await tools_listed(running)
        yield running


async def paused(admin: Client, *turns: dict[str, Any]) -> Any:
    """A run that waits for a decision."""
    spec = agent(*turns, interrupt_on=GATED)
    await admin.save_agent(spec)
    run = await admin.start(spec["name"])
    assert run.state == AWAITING
    return run


async def test_a_decision_taken_while_the_broker_is_down(
    stack: Stack, admin: Client, broker: EmbeddedNats, ledger: Ledger
) -> None:
    """Lost resume hint: with NATS down a run pauses, is decided, and the reconciler resumes it;
    when NATS is back, what subscribers are to be told is told.
    """
    broker.stop()
    try:
        run = await paused(admin, turn(fire("c1", "no-broker")))
        await admin.decide_all(run.id, "approve")
        await stack.maintain("ReconcileRuns")
        assert (await admin.finished(run.id)).state == SUCCEEDED
        assert ledger.count("no-broker") == 1
        untold = "SELECT 1 FROM outbox WHERE published_at IS NULL AND kind = 'nats'"
        assert await stack.sql("approvals", untold)
    finally:
        broker.start()

    async def all_told() -> bool:
        return not [r for w in ("approvals", "runner") for r in await stack.sql(w, untold)]

    await eventually(all_told, timeout=20, what="the outboxes are empty")


async def test_a_decision_taken_while_the_runner_is_down(
    stack: Stack, admin: Client, ledger: Ledger
) -> None:
    """Lost resume hint: the runner is down during the decide; what it missed it catches up with
    when it is back, without any sweeper.
    """
    run = await paused(admin, turn(fire("c1", "no-runner")))
    await stack.stop("runner")
    await admin.decide_all(run.id, "approve")
    await stack.start_runner()
    await tools_listed(stack)
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert ledger.count("no-runner") == 1


async def test_a_run_that_pauses_while_approvals_is_down(
    stack: Stack, admin: Client, ledger: Ledger
) -> None:
    """A is down when the run suspends: the run is not shown as waiting until A has opened the
    suspension, and then it can be decided.
    """
    gate = ledger.hold("no-approvals")
    spec = agent(
        turn(call("c0", "count__look", item="no-approvals")),
        turn(fire("c1", "opened-late")),
        interrupt_on=GATED,
    )
    await admin.save_agent(spec)
    run = await admin.start(spec["name"], wait=0)
    await gate.reached()
    await stack.stop("approvals")
    await gate.open()
    suspended = "SELECT 1 FROM runs WHERE id = $1 AND state = 'awaiting_approval'"
    await eventually(lambda: _any(stack, suspended, run.id), what="the run suspends")
    assert await _any(stack, f"{suspended} AND awaiting_since IS NULL", run.id)
    await stack.start_approvals()
    await eventually(lambda: _reconciled(stack), what="approvals is reached again")
    await admin.until(run.id, "run.suspended")
    assert (await admin.run(run.id)).state == AWAITING
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert ledger.count("opened-late") == 1
    gate.remove()


async def _any(stack: Stack, statement: str, *args: Any) -> bool:
    return bool(await stack.sql("runner", statement, *args))


async def _reconciled(stack: Stack) -> bool:
    try:
        await stack.maintain("ReconcileRuns")
    except Unavailable:  # the runner's channel backs off
        return False
    return not await _any(
        stack,
        "SELECT 1 FROM runs WHERE state = 'awaiting_approval' AND suspension_opened_at IS NULL",
    )


async def test_forged_late_and_broken_hints_change_nothing(
    stack: Stack, admin: Client, broker: EmbeddedNats, ledger: Ledger
) -> None:
    """The row is the truth: a hint for a pending suspension, one of generation 1 in generation 2,
    repeated ones and garbage change nothing; a right decision works after them.
    """
    run = await paused(admin, turn(fire("c1", "gen-1")), turn(fire("c2", "gen-2")))
    (row,) = await stack.sql("runner", "SELECT tenant_id FROM runs WHERE id = $1", run.id)
    ids = {"tenant_id": str(row["tenant_id"]), "run_id": run.id}
    first = json.dumps({**ids, "suspension_id": run.suspension_id}).encode()
    sender = await nats.connect(broker.url)

    async def send(*payloads: bytes) -> None:
        for payload in payloads:
            await sender.publish("hango.demo.run.resume.v1", payload)
        await sender.flush()
        await stack.maintain("ReconcileRuns")

    await send(
        first, first, b"", b"{", b"[]", b'{"tenant_id": 1, "run_id": [], "suspension_id": {}}'
    )
    await send(json.dumps({**ids, "suspension_id": run.id}).encode())
    assert (await admin.run(run.id)).state == AWAITING
    await admin.decide_all(run.id, "approve")
    await admin.until(run.id, "run.suspended", times=2)
    await send(first, first)
    again = await admin.run(run.id)
    assert (again.state, again.pending_approvals) == (AWAITING, 1)
    assert (ledger.count("gen-1"), ledger.count("gen-2")) == (1, 0)
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert ledger.count("gen-2") == 1
    await sender.close()


async def test_maintenance_is_not_for_users(stack: Stack, admin: Client) -> None:
    """The maintenance calls are the sweeper's alone."""
    stub = runs_pb2_grpc.RunsMaintenanceServiceStub(admin.runner)
    with pytest.raises((Forbidden, Unauthenticated)):
        await admin.call(stub.ReapRuns, runs_pb2.ReapRunsRequest(limit=1))
    await stack.maintain("ReapRuns")
