"""What stops, what does not, and that nothing has run by then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform.errors import InvalidRequest

from tests.support.scripts import FIRE, GATED, agent, call, fire, turn

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.stack import Client, Stack

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
FAILED = types_pb2.RUN_STATE_FAILED
MEMORY = {"path": "/memories/AGENTS.md", "content": "note"}


async def started(admin: Client, member: Client, spec: dict[str, Any], **more: Any) -> Any:
    """Save this agent and start a run of it: the run, paused or over."""
    await admin.save_agent(spec)
    return await member.start(spec["name"], **more)


async def test_nothing_of_a_batch_runs_before_the_decision(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: an interrupt suspends and no tool of the batch has run. Case 6: then both run,
    results in call order, the free one's too.
    """
    free = call("c1", "count__look", item="p-free")
    gated = fire("c2", "p-gated")
    last = call("c3", "count__put", item="p-last")
    run = await started(admin, member, agent(turn(free, gated, last), interrupt_on=GATED))
    assert (run.state, run.pending_approvals) == (AWAITING, 1)
    assert run.HasField("awaiting_since")
    for item in ("p-free", "p-gated", "p-last"):
        assert ledger.count(item) == 0
    await admin.decide(run.id, {"tool_call_id": "c2", "decision": "approve"})
    assert (await member.finished(run.id)).state == SUCCEEDED
    results = [m for m in await member.messages(run.id) if m.role == "tool"]
    assert [m.tool_call_id for m in results] == ["c1", "c2", "c3"]
    assert [json.loads(m.content_json) for m in results] == [
        "look p-free 0",
        "fire p-gated 0",
        "put p-last 0",
    ]
    assert [ledger.count(item) for item in ("p-free", "p-gated", "p-last")] == [1, 1, 1]


async def test_gate_two_stays_shut_after_gate_one(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 3: gate 1 approved; the run waits at gate 2, is offered for reconciling and reaping
    again and again: gate 2 is still pending and its call did not run.
    """
    spec = agent(turn(fire("c1", "g-one")), turn(fire("c1", "g-two")), interrupt_on=GATED)
    run = await started(admin, member, spec)
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
    await member.until(run.id, "run.suspended", times=2)
    for method in ("ReconcileRuns", "ReapRuns", "ReconcileSuspensions", "ExpireSuspensions"):
        await stack.maintain(method)
    pending = await admin.approval_list(run.id, state=types_pb2.APPROVAL_STATE_PENDING)
    assert [json.loads(a.arguments_json)["item"] for a in pending] == ["g-two"]
    assert (ledger.count("g-one"), ledger.count("g-two")) == (1, 0)
    assert (await member.run(run.id)).state == AWAITING


@pytest.mark.parametrize("call_id", ["", "same"])
async def test_equal_calls_are_two_approvals(
    admin: Client, member: Client, ledger: Ledger, call_id: str
) -> None:
    """Case 5: the same tool with the same arguments twice in a batch, with empty ids and with
    equal ids: two approvals, told apart by approval id.
    """
    item = f"twice-{call_id}"
    spec = agent(turn(fire(call_id, item), fire(call_id, item)), interrupt_on=GATED)
    run = await started(admin, member, spec)
    first, second = await admin.approval_list(run.id)
    assert first.id != second.id
    assert first.tool_call_id != second.tool_call_id
    assert first.tool_call_id
    assert second.tool_call_id
    await admin.decide(
        run.id,
        {"approval_id": second.id, "decision": "approve"},
        {"approval_id": first.id, "decision": "reject"},
    )
    await member.finished(run.id)
    assert [e["tool_call_id"] for e in ledger.entries(item)] == [second.tool_call_id]
    results = {m.tool_call_id: m for m in await member.messages(run.id) if m.role == "tool"}
    assert results[first.tool_call_id].is_error
    assert not results[second.tool_call_id].is_error


async def test_an_id_used_every_turn_needs_a_new_approval_each_time(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 10: the model reuses `call_1` every turn; an old approval does not count for it."""
    turns = [turn(fire("call_1", "reuse")) for _ in range(3)]
    run = await started(admin, member, agent(*turns, interrupt_on=GATED))
    for n in range(3):
        await member.until(run.id, "run.suspended", times=n + 1)
        assert ledger.count("reuse") == n
        await admin.decide_all(run.id, "approve")
    assert (await member.finished(run.id)).state == SUCCEEDED
    found = await admin.approval_list(run.id)
    assert len({a.id for a in found}) == 3
    assert len({a.tool_call_id for a in found}) == 3
    assert len({e["key"] for e in ledger.entries("reuse")}) == ledger.count("reuse") == 3


async def test_asking_again_for_ever_ends_at_the_limit(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Case 15: the model asks for the same call after every refusal: gated each time, and the run
    ends at its limit with a clear reason.
    """
    turns = [turn(fire("c1", "again")) for _ in range(9)]
    spec = agent(*turns, interrupt_on=GATED, limits={"max_turns": 3})
    run = await started(admin, member, spec)
    for n in range(3):
        await member.until(run.id, "run.suspended", times=n + 1)
        await admin.decide_all(run.id, "reject", message="no")
    run = await member.finished(run.id)
    assert (run.state, run.failure.reason) == (FAILED, "limit_exceeded")
    assert "max_turns" in run.failure.message
    assert ledger.count("again") == 0


@pytest.mark.parametrize("later", [{FIRE: False}, {FIRE: {"when": {"arg": "amount", "gt": 100}}}])
async def test_a_saved_agent_does_not_lift_a_pause(
    admin: Client, member: Client, ledger: Ledger, later: dict[str, Any]
) -> None:
    """Case 16: while paused the agent is saved with the rule removed, or with a `when` that no
    longer matches; the stored verdict decides, and later turns keep the pinned rules.
    """
    item = f"resaved-{type(later[FIRE]).__name__}"
    spec = agent(turn(fire("c1", item)), turn(fire("c2", item)), interrupt_on=GATED)
    run = await started(admin, member, spec)
    await admin.save_agent({**spec, "interrupt_on": later})
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "reject"})
    await member.until(run.id, "run.suspended", times=2)
    await admin.decide(run.id, {"tool_call_id": "c2", "decision": "reject"})
    assert (await member.finished(run.id)).agent_version == 1
    assert ledger.count(item) == 0


@pytest.mark.parametrize(
    ("interrupt_on", "pointer"),
    [
        ({"count__fier": True}, "/interrupt_on/count__fier"),
        ({FIRE: {"allowed_decisions": ["aprove"]}}, f"/interrupt_on/{FIRE}/allowed_decisions/0"),
        ({FIRE: {"alowed_decisions": ["approve"]}}, f"/interrupt_on/{FIRE}/alowed_decisions"),
        ({FIRE: {"allowed_decisions": []}}, f"/interrupt_on/{FIRE}/allowed_decisions"),
        ({FIRE: {"when": {"arg": "amount", "gtt": 1}}}, f"/interrupt_on/{FIRE}/when/gtt"),
    ],
)
async def test_a_typo_in_a_rule_is_refused_at_save(
    admin: Client, interrupt_on: dict[str, Any], pointer: str
) -> None:
    """Case 17: a typo in `interrupt_on` (tool, decision, key) is refused with a pointer."""
    spec = agent(interrupt_on=interrupt_on)
    with pytest.raises(InvalidRequest) as refused:
        await admin.save_agent(spec)
    assert [v.pointer for v in refused.value.violations] == [pointer]


async def test_a_rule_can_be_limited_to_a_path(
    admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: the matcher limits a rule to a path prefix."""
    rule = {FIRE: {"when": {"arg": "path", "under": "/etc/"}}}
    batch = [
        fire("out", "path-out", path="/etcetera/x"),
        fire("in", "path-in", path="/srv/../etc//x"),
        fire("unknown", "path-unknown", path="..\\etc"),
    ]
    free = await started(admin, member, agent(turn(batch[0]), interrupt_on=rule))
    assert (free.state, ledger.count("path-out")) == (SUCCEEDED, 1)
    run = await started(admin, member, agent(turn(*batch), interrupt_on=rule))
    assert run.state == AWAITING
    assert [a.tool_call_id for a in await admin.approval_list(run.id)] == ["in", "unknown"]


async def test_writing_memories_pauses_by_default(admin: Client, member: Client) -> None:
    """Item 10: `write_file` to `/memories/AGENTS.md` pauses without any rule of the user's."""
    spec = agent(turn(call("c1", "write_file", **MEMORY)))
    run = await started(admin, member, spec)
    assert run.state == AWAITING
    (waiting,) = await admin.approval_list(run.id)
    assert json.loads(waiting.rule_json)["source"] == "default"
    assert json.loads(waiting.arguments_json) == MEMORY
    assert len(waiting.allowed_decisions) == 4


@pytest.mark.parametrize(
    "path",
    ["/memories/x", "//memories/x", "/a/../memories/x", "memories/x", "/memories", "/MEMORIES/x"],
)
async def test_every_way_to_write_a_memory_is_gated(
    stack: Stack, admin: Client, member: Client, path: str
) -> None:
    """Case 31: paths that end below `/memories/` wait, and the tool writes exactly where the
    matcher looked.
    """
    spec = agent(turn(call("c1", "write_file", path=path, content="x")))
    run = await started(admin, member, spec)
    assert run.state == AWAITING
    await admin.decide_all(run.id, "approve")
    await member.finished(run.id)
    written = await stack.sql("runner", "SELECT path, scope FROM files WHERE run_id = $1", run.id)
    if path in ("/memories", "/MEMORIES/x"):
        # A folder that agents know is no file; another case is another folder, of the thread.
        assert [r["path"] for r in written] == [p for p in [path] if p != "/memories"]
    else:
        assert [(r["path"], r["scope"]) for r in written] == [
            ("/memories/x", f"agent:{spec['name']}")
        ]


@pytest.mark.parametrize("arguments", [{"content": "x"}, {"path": 5, "content": "x"}])
async def test_a_path_that_is_none_is_refused(
    stack: Stack, admin: Client, member: Client, arguments: dict[str, Any]
) -> None:
    """Case 31: no path, or a number as path: an error result; nobody is asked, nothing written."""
    spec = agent(turn({"id": "c1", "name": "write_file", "arguments": arguments}))
    run = await started(admin, member, spec)
    assert run.state == SUCCEEDED
    (result,) = [m for m in await member.messages(run.id) if m.role == "tool"]
    assert result.is_error
    assert not await stack.sql("runner", "SELECT path FROM files WHERE run_id = $1", run.id)


@pytest.mark.parametrize("folder", ["/memories", "/skills"])
@pytest.mark.parametrize("tool", ["write_file", "edit_file", "delete_file"])
async def test_every_builtin_that_writes_is_gated(
    admin: Client, member: Client, tool: str, folder: str
) -> None:
    """Case 32: the default rule covers every built-in that reaches the agent's lasting files."""
    arguments = {
        "write_file": {"content": "x"},
        "edit_file": {"old_string": "a", "new_string": "b"},
        "delete_file": {},
    }[tool]
    spec = agent(turn(call("c1", tool, path=f"{folder}/x", **arguments)))
    run = await started(admin, member, spec)
    assert run.state == AWAITING


async def test_the_default_covers_all_builtins_that_write(admin: Client) -> None:
    """Case 32: a new built-in with an effect on files cannot be forgotten: every transactional
    one that takes a path and is not a reader has the default rule.
    """
    saved = await admin.save_agent(agent())
    gated = {n for n, rule in json.loads(saved.interrupt_on_json).items() if rule}
    writers = {
        name
        for name, tool in (await admin.tools()).items()
        if tool.effect == "transactional"
        and "path" in json.loads(tool.parameters_json)["properties"]
    }
    assert writers - {"ls", "read_file", "glob", "grep"} == gated
