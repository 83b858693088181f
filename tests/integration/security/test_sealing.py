"""Values of tool calls at rest: sealed per tenant, and erased with the tenant's key."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import asyncpg
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango_platform.postgres import sealing
from hango_platform.postgres.queries import load

from tests.support import history
from tests.support.stack import running_stack

if TYPE_CHECKING:
    import pytest

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Client, Stack

KEY = {"encryption_key": "0a" * 32}
PACKAGES = {"approvals": "hango_approvals.postgres", "runner": "hango_runner.postgres"}
# A scripted model has its calls in the agent's spec; what waits to be sent is gone in a day.
ELSEWHERE = {"agents", "outbox"}


def agent(name: str, *paths: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "name": "read_file", "arguments": {"path": path}}
        for n, path in enumerate(paths)
    ]
    return {
        "name": name,
        "model": {"provider": "scripted", "turns": [{"tool_calls": calls}, {"text": "done"}]},
        "interrupt_on": {"read_file": True},
    }


async def texts(stack: Stack, which: str) -> dict[str, str]:
    """All that a database holds, by table; bytes as hex."""
    names = await stack.sql(
        which, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200"
    )
    found = {}
    for name in (r["relname"] for r in names):
        rows = await stack.sql(which, f"SELECT to_jsonb(t)::text AS row FROM {name} t")
        found[name] = "\n".join(r["row"] for r in rows)
    return found


async def cycle(
    member: Client, admin: Client, name: str, *decisions: dict[str, Any], **more: Any
) -> str:
    run = await member.start(name, **more)
    assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
    await admin.decide(run.id, *decisions)
    done = await member.finished(run.id)
    assert done.state == types_pb2.RUN_STATE_SUCCEEDED
    return str(done.id)


async def erase(dsn: str, tenant_id: str) -> None:
    """As the guide says."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET ROLE hango_system")
        done = await connection.execute("DELETE FROM tenant_keys WHERE tenant_id = $1", tenant_id)
        assert done == "DELETE 1"
    finally:
        await connection.close()


async def test_nothing_of_a_call_is_stored_in_the_clear_and_all_of_it_can_be_erased(
    postgres_server: PostgresServer, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "_KEYS_LIVE", 0.0)
    secret = {n: f"s3cret-{n}-{secrets.token_hex(8)}" for n in ("asked", "edited", "refused", "b")}
    async with running_stack(postgres_server, nats_server, approvals=KEY, runner=KEY) as stack:
        member, admin = stack.users["member"], stack.users["admin"]
        await admin.save_agent(agent("reader", f"/{secret['asked']}", "/x", "/y"))
        run_id = await cycle(
            member,
            admin,
            "reader",
            {"tool_call_id": "c0", "decision": "approve"},
            {"tool_call_id": "c1", "decision": "edit", "args": {"path": f"/{secret['edited']}"}},
            {"tool_call_id": "c2", "decision": "reject", "message": secret["refused"]},
        )
        await stack.users["b-owner"].save_agent(agent("reader", f"/{secret['b']}"))
        b_run = await cycle(
            stack.users["b-member"],
            stack.users["b-owner"],
            "reader",
            {"tool_call_id": "c0", "decision": "approve"},
        )

        secret["forked"] = f"s3cret-forked-{secrets.token_hex(8)}"
        checkpoint = (await history.checkpoints(member, run_id))[1]
        forked = await history.fork(
            member, run_id, checkpoint.checkpoint_id, edits={"c1": {"path": f"/{secret['forked']}"}}
        )
        fork = await member.run(forked.run.id, wait=20)
        assert fork.pending_approvals == 3
        state = await history.checkpoint(member, run_id, checkpoint.checkpoint_id)
        assert secret["asked"].encode() in state.pending_calls[0].call.arguments_raw
        difference = await history.diff(member, run_id, fork.id)
        assert secret["forked"].encode() in difference.calls[1].other_call.call.arguments_raw
        assert secret["edited"].encode() in difference.calls[1].call.result_json

        for which in PACKAGES:
            for table, text in (await texts(stack, which)).items():
                for value in secret.values():
                    clear = value in text or value.encode().hex() in text
                    assert not clear or table in ELSEWHERE, (which, table)
        # Whoever may see it sees it, to the byte.
        messages = await member.messages(run_id)
        asked = next(m for m in messages if m.tool_calls)
        assert secret["asked"].encode() in asked.tool_calls[0].arguments_raw
        results = [m.content_json.decode() for m in messages if m.role == "tool"]
        assert [s in r for s, r in zip(list(secret.values())[:3], results, strict=True)] == [
            True
        ] * 3
        assert any(secret["asked"] in e.data_json.decode() for e in await member.events(run_id))
        first, second, third = await member.approval_list(run_id)
        assert secret["asked"].encode() in first.arguments_json
        assert secret["edited"].encode() in second.decision_args_json
        assert third.decision_message == secret["refused"]

        [tenant] = await stack.sql("approvals", "SELECT id FROM tenants WHERE name = 'demo'")
        for dsn in (stack.approvals_dsn, stack.runner_dsn):
            await erase(dsn, tenant["id"])
        erased = await member.approval_list(run_id)
        assert [a.arguments_json for a in erased] == [sealing.ERASED] * 3
        assert [a.decision for a in erased] == [a.decision for a in (first, second, third)]
        assert [a.arguments_sha256 for a in erased] == [
            a.arguments_sha256 for a in (first, second, third)
        ]
        for told in (await member.messages(run_id), await member.events(run_id), erased):
            assert not any(s in str(told) for s in secret.values())
        difference = await history.diff(member, run_id, fork.id)
        assert not any(s in str(difference) for s in secret.values())
        stub = agrpc.AuditServiceStub(admin.approvals)
        assert (await admin.call(stub.VerifyAudit, apb.VerifyAuditRequest())).ok
        # The other tenant's are still there; and this one can go on, with a key of its own.
        [theirs] = await stack.users["b-member"].approval_list(b_run)
        assert secret["b"].encode() in theirs.arguments_json
        await admin.save_agent(agent("again", "/z"))
        edit = {"decision": "edit", "args": {"path": "/w"}}
        await cycle(member, admin, "again", {"tool_call_id": "c0", **edit}, thread_id="t")
        # The next run of the thread is shown what became of the calls of this one.
        await member.start("again", thread_id="t")
        assert sealing.ERASED in [a.arguments_json for a in await member.approval_list(run_id)]


async def test_what_was_stored_before_stays_readable(
    postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    async with running_stack(postgres_server, nats_server) as stack:
        member, admin = stack.users["member"], stack.users["admin"]
        # A text that looks like a sealed value is none.
        looks = "/hangot1:" + "A" * 80 + "."
        await admin.save_agent(agent("reader", looks))
        run = await member.start("reader")
        for service in ("runner", "approvals"):
            await stack.stop(service)
            stack.overrides = {**stack.overrides, service: KEY}
        await stack.start_approvals()
        await stack.start_runner()
        await admin.decide(run.id, {"tool_call_id": "c0", "decision": "reject", "message": "no"})
        done = await member.finished(run.id)
        assert done.state == types_pb2.RUN_STATE_SUCCEEDED


def test_every_statement_that_seals_names_its_tenant() -> None:
    """And what is sealed somewhere is opened wherever its column is read."""
    for package in PACKAGES.values():
        sealed = [q for q in load(package).all() if q.seals]
        assert sealed
        for query in sealed:
            assert query.tenant >= 0
        for query in load(package).all():
            read = query.sql.partition("FROM")[0]
            for column in ("arguments_raw", "decision_args_raw", "decided_raw", "e.data", "m.*"):
                if read.lstrip("- ").startswith("SELECT") and column in read:
                    assert query.opens, query.name
