"""S1 repeated late: its answer says that the suspension is closed, but not what was decided."""

from typing import Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform.postgres.pool import Database
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens
from hango_runner import mapping
from hango_runner.approvals_client import ApprovalsClient
from hango_runner.domain.verdict import CallVerdict, IncompleteVerdict, Verdict, VerdictState
from hango_runner.postgres.outbox import Outbox
from hango_runner.postgres.suspensions import SqlSuspensions
from hango_runner.use_cases.suspensions import Suspensions

from tests.support.backend import NatsServer, PostgresServer
from tests.support.stack import Stack, running_stack

AGENT: dict[str, Any] = {
    "name": "writer",
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "tool_calls": [
                    {"id": "c1", "name": "write_file", "arguments": {"path": "/a", "content": "x"}}
                ]
            },
            {"text": "done"},
        ],
    },
    "interrupt_on": {"write_file": True},
}


async def _paused_and_deaf(stack: Stack) -> Any:
    """A paused run in a stack that hears no hints."""
    admin = stack.users["admin"]
    await admin.save_agent(AGENT)
    run = await admin.start("writer")
    assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
    return run


async def test_open_repeated_after_the_decision_resumes_with_it(
    postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    """Found by the benchmark: the relay's S1 came after the decide, and its answer has no bytes."""
    deaf = {"nats_url": "nats://127.0.0.1:1"}
    async with running_stack(postgres_server, nats_server, approvals=deaf, runner=deaf) as stack:
        run = await _paused_and_deaf(stack)
        admin = stack.users["admin"]
        await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
        database = Database(stack.runner_dsn)
        await database.open()
        channel = Channel(stack.approvals_addr, Tokens(stack.internal_key, "runner"))
        store = SqlSuspensions(
            database, Outbox(mapping.finished_body), lambda *_: None, mapping.open_request
        )
        tenant_id = (await stack.sql("runner", "SELECT tenant_id FROM runs"))[0]["tenant_id"]
        request = await store.open_request(str(tenant_id), run.id, run.suspension_id)
        assert request is not None
        await Suspensions(store, ApprovalsClient(channel)).open(str(tenant_id), run.id, request)
        run = await admin.finished(run.id)
        assert run.state == types_pb2.RUN_STATE_SUCCEEDED
        rows = await stack.sql("runner", "SELECT decision, exec_state FROM tool_calls")
        assert [tuple(r) for r in rows] == [("approve", "succeeded")]
        await channel.close()
        await database.close()


async def test_a_verdict_without_decisions_resumes_nothing(
    postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    """T3 itself refuses: no run is queued with a call that nobody has decided."""
    deaf = {"nats_url": "nats://127.0.0.1:1"}
    async with running_stack(postgres_server, nats_server, approvals=deaf, runner=deaf) as stack:
        run = await _paused_and_deaf(stack)
        database = Database(stack.runner_dsn)
        await database.open()
        store = SqlSuspensions(
            database, Outbox(mapping.finished_body), lambda *_: None, mapping.open_request
        )
        row = (await stack.sql("runner", "SELECT tenant_id, approval_id FROM tool_calls"))[0]
        calls = [CallVerdict(str(row["approval_id"]), "", 0)]
        verdict = Verdict(run.suspension_id, VerdictState.DECIDED, calls, None, None)
        with pytest.raises(IncompleteVerdict):
            await store.resume(str(row["tenant_id"]), run.id, verdict)
        state = await stack.sql("runner", "SELECT state FROM runs")
        assert state[0]["state"] == "awaiting_approval"
        await database.close()
