"""Pauses inside of subagents: one suspension, all decisions, nothing run or asked twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform import ids

from tests.support.scripts import GATED, agent, assert_valid, call, fire, turn

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.scripts import Recorder
    from tests.support.stack import Client

AWAITING = types_pb2.RUN_STATE_AWAITING_APPROVAL
SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED


def task(call_id: str, subagent: str, prompt: str) -> dict[str, Any]:
    return call(call_id, "task", subagent=subagent, prompt=prompt)


def subagent(name: str, *turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    script = {"provider": "scripted", "turns": [*turns, {"text": f"{name} is done"}]}
    return {"name": name, "description": f"Does {name}.", "model": script, "tools": ["*"], **more}


async def started(admin: Client, spec: dict[str, Any], *, wait: float = 20) -> Any:
    await admin.save_agent(spec)
    return await admin.start(spec["name"], wait=wait)


async def tool_messages(admin: Client, run_id: str) -> dict[str, str]:
    return {
        m.tool_call_id: m.content_json.decode()
        for m in await admin.messages(run_id)
        if m.role == "tool"
    }


async def test_a_child_reads_then_waits(admin: Client, ledger: Ledger, recorder: Recorder) -> None:
    """Case 19: approve once, the write runs, and the child makes no extra model call before it."""
    prompt, item = f"p {ids.new_id()}", f"i {ids.new_id()}"
    child = subagent("child", turn(call("x", "ls", path="/")), turn(fire("y", item)))
    spec = agent(turn(task("t1", "child", prompt)), subagents=[child], interrupt_on=GATED)
    run = await started(admin, spec)
    assert run.state == AWAITING
    asked = len(recorder.about(prompt))
    assert asked == 2
    [approval] = await admin.approval_list(run.id)
    assert (approval.subagent_path, approval.subagent_call_id) == ("0.0", "t1")
    assert approval.tool_call_id == "call_0.0_1_0"
    assert ledger.count(item) == 0
    await admin.decide(run.id, {"approval_id": approval.id, "decision": "approve"})
    run = await admin.finished(run.id)
    assert run.state == SUCCEEDED
    assert ledger.count(item) == 1
    assert len(recorder.about(prompt)) == asked + 1
    assert run.usage.model_calls == 5
    assert "child is done" in (await tool_messages(admin, run.id))["t1"]
    for request in recorder.about(prompt):
        assert_valid(request)


@pytest.mark.parametrize("decision", ["approve", "edit", "reject", "respond"])
async def test_every_decision_works_in_a_grandchild(
    admin: Client, ledger: Ledger, decision: str
) -> None:
    """Case 20: two levels below the agent, each of the four decisions has its result."""
    item, changed = f"i {ids.new_id()}", f"e {ids.new_id()}"
    grandchild = subagent("grandchild", turn(fire("y", item)))
    child = subagent("child", turn(task("t2", "grandchild", "go")), subagents=[grandchild])
    spec = agent(turn(task("t1", "child", "go")), subagents=[child], interrupt_on=GATED)
    run = await started(admin, spec)
    [approval] = await admin.approval_list(run.id)
    assert approval.subagent_path == "0.0/0.0"
    by_decision: dict[str, dict[str, Any]] = {
        "approve": {},
        "edit": {"args": {"item": changed}},
        "reject": {"message": "not that one"},
        "respond": {"message": "42"},
    }
    more = by_decision[decision]
    await admin.decide(run.id, {"approval_id": approval.id, "decision": decision, **more})
    run = await admin.finished(run.id)
    assert run.state == SUCCEEDED
    assert ledger.count(item) == (decision == "approve")
    assert ledger.count(changed) == (decision == "edit")
    results = await tool_messages(admin, run.id)
    said = results[approval.tool_call_id]
    assert {"approve": item, "edit": changed, "reject": "not that one", "respond": "42"}[
        decision
    ] in said


async def test_two_children_pause_beside_a_sibling_that_ran(
    admin: Client, ledger: Ledger, recorder: Recorder
) -> None:
    """Case 20: one suspension with both calls; what ran before is not run again."""
    before, one, two = (f"{n} {ids.new_id()}" for n in ("before", "one", "two"))
    prompts = [f"p {ids.new_id()}" for _ in range(2)]
    spec = agent(
        turn(
            call("s1", "count__look", item=before),
            task("t1", "first", prompts[0]),
            task("t2", "second", prompts[1]),
        ),
        subagents=[
            subagent("first", turn(fire("x", one))),
            subagent("second", turn(fire("x", two))),
        ],
        interrupt_on=GATED,
    )
    run = await started(admin, spec)
    assert run.state == AWAITING
    approvals = await admin.approval_list(run.id)
    assert [a.subagent_path for a in approvals] == ["0.1", "0.2"]
    assert len({a.suspension_id for a in approvals}) == 1
    requested = [e for e in await admin.events(run.id) if e.type == "approval.requested"]
    assert len(requested) == len(approvals)
    await admin.decide(
        run.id,
        {"approval_id": approvals[1].id, "decision": "reject"},
        {"approval_id": approvals[0].id, "decision": "approve"},
    )
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert (ledger.count(before), ledger.count(one), ledger.count(two)) == (1, 1, 0)
    assert [len(recorder.about(p)) for p in prompts] == [2, 2]


async def test_main_and_child_both_pause_and_own_rules_replace(
    admin: Client, ledger: Ledger
) -> None:
    """Case 18: the inherited rule holds in the child; a child with its own drops it."""
    mine, theirs, free = (f"{n} {ids.new_id()}" for n in ("mine", "theirs", "free"))
    spec = agent(
        turn(fire("c1", mine)),
        turn(task("t1", "heir", "go")),
        turn(task("t2", "free", "go")),
        subagents=[
            subagent("heir", turn(fire("x", theirs))),
            subagent("free", turn(fire("x", free)), interrupt_on={}),
        ],
        interrupt_on=GATED,
    )
    run = await started(admin, spec)
    await admin.decide_all(run.id, "approve")
    run = await admin.run(run.id, wait=20)
    assert run.state == AWAITING
    assert (ledger.count(mine), ledger.count(theirs)) == (1, 0)
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id)).state == SUCCEEDED
    assert (ledger.count(theirs), ledger.count(free)) == (1, 1)
    assert len(await admin.approval_list(run.id)) == 2


async def test_a_child_pauses_twice(admin: Client, ledger: Ledger) -> None:
    """A second gate in the same child is a second suspension, with its own approval."""
    items = [f"{n} {ids.new_id()}" for n in range(2)]
    child = subagent("child", *(turn(fire("x", item)) for item in items))
    spec = agent(turn(task("t1", "child", "go")), subagents=[child], interrupt_on=GATED)
    run = await started(admin, spec)
    for n in range(2):
        assert run.state == AWAITING
        assert [ledger.count(i) for i in items] == [1] * n + [0] * (2 - n)
        await admin.decide_all(run.id, "approve")
        run = await admin.run(run.id, wait=20)
    run = await admin.finished(run.id)
    assert run.state == SUCCEEDED
    assert [ledger.count(i) for i in items] == [1, 1]
    approvals = await admin.approval_list(run.id)
    assert len({a.suspension_id for a in approvals}) == 2


async def test_a_childs_failure_is_its_parents_error(admin: Client) -> None:
    """A model that fails in a child is an error result; the run goes on. So is an unknown child."""
    broken = {
        "name": "broken",
        "description": "Fails.",
        "model": {"provider": "scripted", "turns": [{"error": "server"}]},
    }
    spec = agent(turn(task("t1", "broken", "go"), task("t2", "nobody", "go")), subagents=[broken])
    run = await started(admin, spec)
    assert run.state == SUCCEEDED
    results = await tool_messages(admin, run.id)
    assert "failed" in results["t1"]
    assert "no subagent nobody" in results["t2"]


async def test_task_is_only_for_those_who_have_subagents(admin: Client) -> None:
    """An agent without subagents has no such tool, whatever its list says."""
    run = await started(admin, agent(turn(task("t1", "child", "go"))))
    assert run.state == SUCCEEDED
    assert "no tool of this name" in (await tool_messages(admin, run.id))["t1"]


async def test_many_children_in_one_suspension(admin: Client, ledger: Ledger) -> None:
    """50 parallel children: one suspension; all are listed and decided at once."""
    items = [f"{n} {ids.new_id()}" for n in range(50)]
    children = [subagent(f"c{n}", turn(fire("x", item))) for n, item in enumerate(items)]
    calls = [task(f"t{n}", f"c{n}", "go") for n in range(50)]
    spec = agent(turn(*calls), subagents=children, interrupt_on=GATED)
    run = await started(admin, spec, wait=60)
    assert run.state == AWAITING
    approvals = await admin.approval_list(run.id)
    assert len(approvals) == 50
    assert len({a.suspension_id for a in approvals}) == 1
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id, wait=60)).state == SUCCEEDED
    assert [ledger.count(i) for i in items] == [1] * 50
