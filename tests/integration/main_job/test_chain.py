"""The onion: its order, what happens without the human's layer, what no layer can swallow."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_runner import app as runner_app
from hango_runner.agent.chain import AwaitingApproval, Middleware, ToolCall, onion
from hango_runner.agent.executor import Executor, UndecidedCall
from hango_runner.agent.middleware.human_in_the_loop import HumanInTheLoop
from hango_runner.agent.state import Call, CallKey, Decision, Ruling
from hango_runner.agent.tools import ToolResult
from hango_runner.tools.catalog import Catalog

from tests.integration.main_job.conftest import tools_listed
from tests.support.counting import Ledger
from tests.support.scripts import GATED, agent, call, fire, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

REAL_CHAIN = runner_app.chain
AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED


class Retrying(Middleware):
    """Wraps and retries whatever error a tool ends with, as many do."""

    def __init__(self) -> None:
        self.attempts = 0

    async def around_tool(
        self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        for _ in range(3):
            self.attempts += 1
            try:
                return await call_next(asked)
            except Exception:  # the fault under test
                continue
        return ToolResult("gave up", is_error=True)


@asynccontextmanager
async def chained(
    postgres: PostgresServer,
    nats: NatsServer,
    ledger: Ledger,
    chain: Callable[[Catalog], list[Middleware]],
) -> AsyncIterator[Stack]:
    """A stack whose loop has another onion."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_app, "chain", chain)
        async with running_stack(postgres, nats, tool_servers=ledger.tool_servers) as stack:
            await tools_listed(stack)
            yield stack


def test_the_order_is_pinned() -> None:
    """The onion's order: repair outermost, then memory, the human, the allowlist; the clock next
    to the tool, so that a person's time is no tool's time.
    """
    layers = [type(layer).__name__ for layer in runner_app.chain(Catalog())]
    assert layers == ["RepairToolCalls", "Memory", "HumanInTheLoop", "Allowlist", "Timeout"]


async def test_without_the_humans_layer_there_are_no_approvals(
    postgres_server: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Item 9: without the HumanInTheLoop line in the chain the loop behaves as if approvals did
    not exist.
    """
    ledger = Ledger(tmp_path)

    def without(catalog: Catalog) -> list[Middleware]:
        return [layer for layer in REAL_CHAIN(catalog) if not isinstance(layer, HumanInTheLoop)]

    batch = [
        fire("c1", "off"),
        call("c2", "write_file", path="/memories/AGENTS.md", content="note"),
    ]
    async with chained(postgres_server, nats_server, ledger, without) as stack:
        member = stack.users["member"]
        spec = agent(turn(*batch), interrupt_on={"*": True})
        await stack.users["admin"].save_agent(spec)
        run = await member.start(spec["name"])
        assert run.state == SUCCEEDED
        results = [m for m in await member.messages(run.id) if m.role == "tool"]
        assert [m.is_error for m in results] == [False, False]
        kinds = {e.type for e in await member.events(run.id)}
        assert not [k for k in kinds if k.startswith("approval") or k == "run.suspended"]
        assert ledger.count("off") == 1
        assert not await stack.sql("approvals", "SELECT id FROM suspensions")


@pytest.mark.parametrize("place", [0, 2, 5])
async def test_no_layer_swallows_a_suspension(place: int) -> None:
    """Case 26: a middleware that wraps tool errors or retries lets the suspension through, and
    wherever it stands no attempt is repeated.
    """
    retrying = Retrying()
    layers = REAL_CHAIN(Catalog())
    layers.insert(place, retrying)
    reached = []

    async def core(asked: ToolCall) -> ToolResult:
        reached.append(asked)
        return ToolResult("ran")

    with pytest.raises(AwaitingApproval):
        await onion(layers, core)(asked(None))
    assert retrying.attempts == (1 if place <= 2 else 0)
    assert not reached


async def test_a_retrying_layer_counts_no_attempt_for_a_pause(
    postgres_server: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Case 26: with a retrying layer outermost a run pauses as ever, no attempt is counted for
    the pause, and the approved tool runs once.
    """
    ledger, retrying = Ledger(tmp_path), Retrying()

    def wrapped(catalog: Catalog) -> list[Middleware]:
        return [retrying, *REAL_CHAIN(catalog)]

    async with chained(postgres_server, nats_server, ledger, wrapped) as stack:
        admin = stack.users["admin"]
        spec = agent(turn(fire("c1", "retried")), interrupt_on=GATED)
        await admin.save_agent(spec)
        run = await admin.start(spec["name"])
        assert (run.state, retrying.attempts) == (AWAITING, 0)
        await admin.decide_all(run.id, "approve")
        assert (await admin.finished(run.id)).state == SUCCEEDED
        assert (ledger.count("retried"), retrying.attempts) == (1, 1)


@pytest.mark.parametrize(
    ("ruling", "decision"),
    [
        (Ruling.GATED, None),
        (Ruling.GATED, "reject"),
        (Ruling.GATED, "respond"),
        (Ruling.BAD, None),
        (Ruling.BAD, "approve"),
    ],
)
async def test_the_executor_refuses_what_was_not_approved(
    ruling: Ruling, decision: str | None
) -> None:
    """Case 27: anything that reaches the executor with an undecided or refused gated call is
    refused there, before the journal or a tool is touched.
    """
    untouchable: Any = None
    executor = Executor(untouchable, untouchable)
    with pytest.raises(UndecidedCall):
        await executor(asked(decision, ruling))


async def test_a_run_queued_without_a_decision_does_not_run_its_call(
    postgres_server: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Cases 3 and 27: a paused run is enqueued again without a decision, past all transitions: its
    call does not run, and the run does not go round for ever.
    """
    ledger = Ledger(tmp_path)
    async with chained(postgres_server, nats_server, ledger, REAL_CHAIN) as stack:
        admin = stack.users["admin"]
        spec = agent(turn(fire("c1", "forced")), interrupt_on=GATED)
        await admin.save_agent(spec)
        run = await admin.start(spec["name"])
        await stack.sql("runner", "UPDATE runs SET state = 'queued' WHERE id = $1", run.id)
        over = await admin.finished(run.id, wait=5)
        assert (over.state, over.failure.reason) == (types_pb2.RUN_STATE_FAILED, "internal")
        assert ledger.count("forced") == 0
        (row,) = await stack.sql(
            "runner", "SELECT exec_state FROM tool_calls WHERE run_id = $1", run.id
        )
        assert row["exec_state"] in ("none", "skipped")


def asked(decision: str | None, ruling: Ruling = Ruling.GATED) -> ToolCall:
    """A call on its way down the chain."""
    run: Any = None
    made = Call(
        key=CallKey("", 0, 0),
        tool_call_id="c1",
        tool_name="write_file",
        arguments=json.dumps({"path": "/x", "content": "x"}).encode(),
        ruling=ruling,
        decision=None if decision is None else Decision(decision),
    )
    return ToolCall(run, made, timeout=1)


async def test_what_a_layer_refuses_is_on_record(
    postgres_server: PostgresServer, nats_server: NatsServer, ledger: Ledger
) -> None:
    """An approved call that the allowlist stops did not run, and its approval says so."""

    class Closed(Middleware):
        async def around_tool(
            self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
        ) -> ToolResult:
            return ToolResult("closed today", is_error=True, refused=True)

    def chain(catalog: Catalog) -> list[Middleware]:
        return [*REAL_CHAIN(catalog), Closed()]

    async with chained(postgres_server, nats_server, ledger, chain) as stack:
        admin = stack.users["admin"]
        spec = agent(turn(fire("c1", "shut")), interrupt_on=GATED)
        await admin.save_agent(spec)
        run = await admin.start(spec["name"])
        await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
        assert (await admin.finished(run.id)).state == SUCCEEDED
        assert ledger.count("shut") == 0

        async def reported() -> bool:
            [approval] = await admin.approval_list(run.id)
            failed: bool = approval.execution_state == types_pb2.EXECUTION_STATE_FAILED
            return failed

        await eventually(reported, what="the report of the refused call")
