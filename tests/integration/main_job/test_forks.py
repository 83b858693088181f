"""Forks: nothing of the original is used again but what was said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2, runs_pb2_grpc
from hango_platform import ids
from hango_platform.errors import (
    EditInvalid,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
)

from tests.support import history
from tests.support.scripts import FIRE, GATED, agent, assert_valid, call, fire, turn

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.scripts import Recorder
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
PENDING = types_pb2.APPROVAL_STATE_PENDING


async def saved(admin: Client, *turns: dict[str, Any], **more: Any) -> str:
    """The name of a new agent whose calls of the firing tool are gated."""
    spec = agent(*turns, **{"interrupt_on": GATED, **more})
    await admin.save_agent(spec)
    name: str = spec["name"]
    return name


async def approved(admin: Client, member: Client, name: str, text: str = "go") -> Any:
    """A run whose every pause was approved."""
    run = await member.start(name, text)
    while run.state == AWAITING:
        await admin.decide_all(run.id, "approve")
        run = await member.finished(run.id)
    assert run.state == SUCCEEDED
    return run


async def test_a_fork_from_before_the_gate_asks_anew(
    stack: Stack, admin: Client, member: Client, ledger: Ledger, recorder: Recorder
) -> None:
    """Case 24: a fork from before the gate: a new approval; the original's decision and its
    execution are not used again, and the original stays as it is.
    """
    text = f"before {ids.new_id()}"
    name = await saved(admin, turn(fire("c1", "before")))
    run = await approved(admin, member, name, text)
    before = await member.messages(run.id), await member.events(run.id)
    forked = await history.fork(admin, run.id, await history.point(member, run.id, 0, "model"))
    assert (forked.run.forked_from, forked.run.created_by) == (run.id, admin.user_id)
    assert not forked.run.HasField("thread_id")
    fork = await history.settled(admin, forked)
    assert fork.state == AWAITING
    (original,) = await admin.approval_list(run.id)
    (approval,) = await admin.approval_list(fork.id)
    assert approval.id != original.id
    assert (approval.state, approval.tool_call_id) == (PENDING, "c1")
    assert ledger.count("before") == 1
    await admin.decide_all(fork.id, "reject", message="not again")
    fork = await admin.finished(fork.id)
    assert ledger.count("before") == 1
    said = await admin.messages(fork.id)
    assert [m.seq for m in said] == [1, 2, 3, 4]
    assert "not again" in json.loads(said[2].content_json)
    assert before == (await member.messages(run.id), await member.events(run.id))
    (same,) = await admin.approval_list(run.id)
    assert (same.id, same.decision, same.decided_at) == (
        original.id,
        original.decision,
        original.decided_at,
    )
    rows = await stack.sql("runner", "SELECT seq FROM messages WHERE run_id = $1", fork.id)
    assert sorted(r["seq"] for r in rows) == [2, 3, 4], "what is shared is not copied"
    for seen in recorder.about(text):
        assert_valid(seen)


async def test_a_fork_of_a_paused_run_judges_its_batch_anew(
    admin: Client, member: Client, ledger: Ledger, recorder: Recorder
) -> None:
    """With the rules of the pinned version, and no model call; both pauses are decided apart."""
    text = f"anew {ids.new_id()}"
    name = await saved(
        admin, turn(fire("c1", "anew"), call("c2", "write_file", path="/a", content="b"))
    )
    run = await member.start(name, text)
    spec = agent(turn(fire("c1", "anew")), interrupt_on={})
    await admin.save_agent({**spec, "name": name})
    asked = len(recorder.about(text))
    forked = await history.fork(member, run.id, await history.point(member, run.id, 1, "tools"))
    fork = await history.settled(member, forked)
    assert (fork.state, fork.agent_version) == (AWAITING, run.agent_version)
    assert fork.usage.model_calls == 0
    assert len(recorder.about(text)) == asked
    (approval,) = await admin.approval_list(fork.id)
    assert (approval.tool_call_id, approval.run_id) == ("c1", fork.id)
    await admin.decide_all(run.id, "reject")
    await admin.decide_all(fork.id, "approve")
    assert (await member.finished(run.id)).state == SUCCEEDED
    fork = await member.finished(fork.id)
    assert (fork.state, fork.usage.model_calls) == (SUCCEEDED, 1)
    assert ledger.count("anew") == 1
    assert [m.role for m in await member.messages(fork.id)] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]


async def test_a_fork_with_other_arguments(admin: Client, member: Client, ledger: Ledger) -> None:
    """`edit_calls`: the arguments pass the schema and the rules afresh: one that the rule does not
    stop runs, one that it stops waits, one that the tool cannot take is refused.
    """
    gate = {FIRE: {"when": {"arg": "item", "prefix": "guarded"}}}
    name = await saved(
        admin, turn(fire("c1", "guarded-1"), fire("c2", "free-1")), interrupt_on=gate
    )
    run = await member.start(name)
    checkpoint = await history.point(member, run.id, 1, "tools")
    waiting = await history.settled(
        member, await history.fork(member, run.id, checkpoint, edits={"c2": {"item": "guarded-2"}})
    )
    assert waiting.state == AWAITING
    assert [a.tool_call_id for a in await admin.approval_list(waiting.id)] == ["c1", "c2"]
    forked = await history.fork(member, run.id, checkpoint, edits={"c1": b'{"item":  "free-2"}'})
    free = await member.finished(forked.run.id)
    assert free.state == SUCCEEDED
    (asked,) = [m for m in await member.messages(free.id) if m.tool_calls]
    assert asked.tool_calls[0].arguments_raw == b'{"item":  "free-2"}'
    assert (ledger.count("free-1"), ledger.count("free-2"), ledger.count("guarded-1")) == (1, 1, 0)
    with pytest.raises(EditInvalid) as refused:
        await history.fork(member, run.id, checkpoint, edits={"c1": {"item": 5}})
    assert [v.pointer for v in refused.value.violations] == ["/edit_calls/c1/args/item"]
    for edits, pointer in (
        ({"c9": {"item": "x"}}, "/edit_calls/c9"),
        ({"c1": b"[]"}, "/edit_calls/c1/args"),
        ({"c1": b'{"item":'}, "/edit_calls/c1/args"),
    ):
        with pytest.raises(InvalidRequest) as wrong:
            await history.fork(member, run.id, checkpoint, edits=edits)
        assert [v.pointer for v in wrong.value.violations] == [pointer]
    assert (await member.run(run.id)).pending_approvals == 1


async def test_a_fork_with_a_new_input_leaves_the_open_calls(
    admin: Client, member: Client, ledger: Ledger, recorder: Recorder
) -> None:
    """The open calls are answered as not executed, then the person speaks; nothing of them runs."""
    text = f"instead {ids.new_id()}"
    name = await saved(
        admin, turn(fire("c1", "open"), call("c2", "no_such_tool"), fire("c3", "open"))
    )
    run = await member.start(name)
    forked = await history.fork(
        member, run.id, await history.point(member, run.id, 1, "tools"), text
    )
    assert not forked.effects_before
    fork = await member.finished(forked.run.id)
    assert fork.state == SUCCEEDED
    (seen,) = recorder.about(text)
    assert_valid(seen)
    assert [m.role for m in seen] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert [("not executed: forked" in str(m.content)) for m in seen[2:5]] == [True, False, True]
    assert all(m.is_error for m in seen[2:5])
    assert ledger.count("open") == 0
    told = [e for e in await member.events(fork.id) if e.type == "message.created"]
    assert [json.loads(e.data_json)["seq"] for e in told] == [3, 4, 5, 6, 7]
    assert [m.seq for m in await member.messages(fork.id)] == list(range(1, 8))
    (first,) = [e for e in await member.events(fork.id) if e.type == "run.queued"]
    assert json.loads(first.data_json)["forked_from"] == run.id


async def test_what_was_done_is_told(admin: Client, member: Client, ledger: Ledger) -> None:
    """`effects_before`: what the fork cannot undo; `effects_after`: what the original has done
    since, for a fork may do it once more. A call that only reads is neither.
    """
    name = await saved(
        admin,
        turn(fire("c1", "done-1"), call("c2", "count__look", item="x"), call("c3", "ls", path="/")),
        turn(call("c4", "write_file", path="/a", content="b"), fire("c5", "done-2")),
        turn(fire("c6", "done-3")),
    )
    run = await member.start(name)
    await admin.decide_all(run.id, "approve")
    await member.until(run.id, "run.suspended", times=2)
    await admin.decide_all(run.id, "approve")
    await member.until(run.id, "run.suspended", times=3)
    forked = await history.fork(member, run.id, await history.point(member, run.id, 2, "tools"))
    assert [(e.run_id, e.tool_call_id, e.state) for e in forked.effects_before] == [
        (run.id, "c1", "succeeded")
    ]
    assert [(e.tool_call_id, e.tool_name) for e in forked.effects_after] == [
        ("c4", "write_file"),
        ("c5", FIRE),
    ]
    fork = await history.settled(member, forked)
    again = await history.fork(member, fork.id, await history.point(member, fork.id, 1, "tools"))
    assert [(e.run_id, e.tool_call_id) for e in again.effects_before] == [(run.id, "c1")]
    assert not again.effects_after
    assert ledger.count("done-2") == 1


async def test_files_as_they_were_then(admin: Client, member: Client) -> None:
    """The run's files as of the checkpoint, and its own from there on; the agent's as they are
    now. A fork of a fork too.
    """

    def write(call_id: str, path: str, content: str) -> dict[str, Any]:
        return call(call_id, "write_file", path=path, content=content)

    def read(call_id: str, path: str) -> dict[str, Any]:
        return call(call_id, "read_file", path=path)

    name = await saved(
        admin,
        turn(
            write("c1", "/a", "one"), write("c2", "/gone", "x"), write("c3", "/memories/m", "old")
        ),
        turn(write("c4", "/a", "two"), call("c5", "delete_file", path="/gone")),
        turn(read("c6", "/a"), read("c7", "/memories/m")),
        turn(call("c8", "ls", path="/"), write("c9", "/memories/m", "new")),
        interrupt_on=dict.fromkeys(("write_file", "delete_file"), False),
    )
    run = await member.start(name)
    assert run.state == SUCCEEDED
    forked = await history.fork(
        member, run.id, await history.point(member, run.id, 2, "tools"), "on"
    )
    fork = await member.finished(forked.run.id)
    results = {m.tool_call_id: m for m in await member.messages(fork.id) if m.tool_call_id}
    assert json.loads(results["c6"].content_json) == "one"
    assert json.loads(results["c7"].content_json) == "new"
    assert "gone" in json.loads(results["c8"].content_json)
    again = await history.fork(member, fork.id, await history.point(member, fork.id, 1, "model"))
    third = await member.finished(again.run.id)
    results = {m.tool_call_id: m for m in await member.messages(third.id) if m.tool_call_id}
    assert "gone" in json.loads(results["c8"].content_json)
    before = {m.tool_call_id: m for m in await member.messages(run.id) if m.tool_call_id}
    assert "gone" not in json.loads(before["c8"].content_json)


async def test_a_fork_of_a_run_in_a_conversation(
    stack: Stack, admin: Client, member: Client, recorder: Recorder
) -> None:
    """The fork has the conversation before, is no part of it, and has the thread's files as they
    were then.
    """
    name = await saved(
        admin,
        turn(call("c1", "write_file", path="/plan", content="one")),
        turn(text="first"),
        turn(call("c2", "read_file", path="/plan")),
        turn(call("c3", "write_file", path="/plan", content="two")),
        turn(text="second"),
        turn(call("c4", "read_file", path="/plan")),
    )
    thread, text = ids.new_id(), f"forked {ids.new_id()}"
    await member.start(name, thread_id=thread)
    second = await member.start(name, thread_id=thread)
    assert second.state == SUCCEEDED
    assert (await member.start(name, thread_id=thread)).state == SUCCEEDED
    forked = await history.fork(
        member, second.id, await history.point(member, second.id, 1, "model"), text
    )
    fork = await member.finished(forked.run.id)
    assert fork.state == SUCCEEDED
    asked = recorder.about(text)
    for seen in asked:
        assert_valid(seen)
    assert [m.role for m in asked[0]] == [
        *["user", "assistant", "tool", "assistant"],
        *["user", "assistant", "tool", "user"],
    ]
    assert asked[0][6].content == "one"
    assert len(await member.runs(thread_id=thread)) == 3
    rows = await stack.sql(
        "runner",
        "SELECT content FROM files WHERE scope = $1 ORDER BY version",
        f"run:{fork.id}",
    )
    assert [r["content"] for r in rows] == ["one", "two"]
    assert (await history.thread(member, thread)).runs == 3


async def test_a_subagent_begins_anew(admin: Client, ledger: Ledger, recorder: Recorder) -> None:
    """A fork of a run whose child has paused: the child is called once more, from its beginning;
    what the original's child has done is told, and only the main agent has checkpoints.
    """
    prompt, looked, fired = (f"{n} {ids.new_id()}" for n in ("prompt", "looked", "fired"))
    turns = [
        turn(call("x", "count__put", item=looked)),
        turn(fire("y", fired)),
        {"text": "child is done"},
    ]
    child = {
        "name": "child",
        "description": "Does it.",
        "model": {"provider": "scripted", "turns": turns},
        "tools": ["*"],
    }
    task = call("t1", "task", subagent="child", prompt=prompt)
    run = await admin.start(await saved(admin, turn(task), subagents=[child]))
    assert run.state == AWAITING
    found = await history.checkpoints(admin, run.id)
    assert [(c.turn, c.next) for c in found] == [(0, "model"), (1, "tools")]
    asked = len(recorder.about(prompt))
    forked = await history.fork(admin, run.id, found[-1].checkpoint_id)
    assert [e.tool_name for e in forked.effects_after] == ["count__put"]
    fork = await history.settled(admin, forked)
    assert fork.state == AWAITING
    assert len(recorder.about(prompt)) == 2 * asked
    assert ledger.count(looked) == 2
    await admin.decide_all(fork.id, "approve")
    assert (await admin.finished(fork.id)).state == SUCCEEDED
    assert ledger.count(fired) == 1
    assert (await admin.run(run.id)).pending_approvals == 1
    later = await history.fork(
        admin, fork.id, await history.point(admin, fork.id, 1, "model"), "and now?"
    )
    assert [e.tool_name for e in later.effects_before] == ["count__put", FIRE]
    assert (await admin.finished(later.run.id)).state == SUCCEEDED


async def test_a_fork_is_repeated_with_its_key(admin: Client, member: Client) -> None:
    """The same key and body: the first answer, effects too, and no second run."""
    name = await saved(admin, turn(fire("c1", "repeated")))
    run = await approved(admin, member, name)
    checkpoint = await history.point(member, run.id, 2, "model")
    key = ids.new_id()
    with pytest.raises(InvalidRequest) as ended:
        await history.fork(member, run.id, checkpoint)
    assert [v.pointer for v in ended.value.violations] == ["/input"]
    first = await history.fork(member, run.id, checkpoint, "more", idempotency_key=key)
    again = await history.fork(member, run.id, checkpoint, "more", idempotency_key=key)
    assert again == first
    assert [e.tool_call_id for e in first.effects_before] == ["c1"]
    with pytest.raises(IdempotencyMismatch):
        await history.fork(member, run.id, checkpoint, "other", idempotency_key=key)
    assert [r.forked_from for r in await member.runs(agent=name)] == [run.id, ""]


async def test_who_may_fork(stack: Stack, admin: Client, member: Client) -> None:
    """Who sees the run; a checkpoint is its run's own, and an agent out of use starts nothing."""
    name = await saved(admin, turn(fire("c1", "who")))
    run, other = await member.start(name), await member.start(name)
    checkpoint = await history.point(member, run.id, 1, "tools")
    for who in ("other-member", "b-owner", "b-admin", "b-member"):
        stranger = stack.users[who]
        for asking in (
            history.fork(stranger, run.id, checkpoint),
            history.checkpoints(stranger, run.id),
            history.checkpoint(stranger, run.id, checkpoint),
            history.messages_until(stranger, run.id, checkpoint),
            history.diff(stranger, run.id, run.id),
        ):
            with pytest.raises(NotFound):
                await asking
    for wrong in (await history.point(member, other.id, 1, "tools"), ids.new_id(), "x", ""):
        for asking in (
            history.fork(member, run.id, wrong),
            history.checkpoint(member, run.id, wrong),
        ):
            with pytest.raises(NotFound):
                await asking
    with pytest.raises(InvalidRequest):
        await history.fork(
            member, run.id, await history.point(member, run.id, 0, "model"), edits={"c1": {}}
        )
    with pytest.raises(InvalidRequest):
        await history.fork(member, run.id, checkpoint, "text", edits={"c1": {"item": "x"}})
    own = await history.fork(admin, run.id, checkpoint)
    with pytest.raises(NotFound):
        await member.run(own.run.id)
    with pytest.raises(NotFound):
        await history.diff(member, run.id, own.run.id)
    stub = runs_pb2_grpc.AgentsServiceStub(admin.runner)
    await admin.call(stub.DeleteAgent, runs_pb2.DeleteAgentRequest(name=name))
    with pytest.raises(NotFound):
        await history.fork(member, run.id, checkpoint)


async def test_a_long_past_is_shared_and_not_copied(
    stack: Stack, admin: Client, member: Client
) -> None:
    """A fork of a run with 1,000 messages adds one message and one checkpoint."""
    name = await saved(admin)
    run = await member.start(name)
    await stack.sql(
        "runner",
        """WITH more AS (
               INSERT INTO messages (tenant_id, run_id, seq, role, content)
               SELECT tenant_id, id, n, 'user', '"more"'
                 FROM runs, generate_series(3, 1000) AS n WHERE id = $1
           ), counted AS (UPDATE runs SET next_message_seq = 1001 WHERE id = $1)
           INSERT INTO checkpoints (tenant_id, id, run_id, turn, next, message_count)
           SELECT tenant_id, gen_random_uuid(), id, 1, 'model', 1000 FROM runs WHERE id = $1""",
        run.id,
    )
    checkpoint = (await history.checkpoints(member, run.id))[-1]
    forked = await history.fork(member, run.id, checkpoint.checkpoint_id, "on")
    fork = await member.finished(forked.run.id)
    assert fork.state == SUCCEEDED
    rows = await stack.sql("runner", "SELECT seq FROM messages WHERE run_id = $1", fork.id)
    assert sorted(r["seq"] for r in rows) == [1001, 1002]
    rows = await stack.sql("runner", "SELECT * FROM checkpoints WHERE run_id = $1", fork.id)
    assert len(rows) == 2
