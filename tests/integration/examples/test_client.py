"""The SDK's client against the real services."""

from typing import Any

import pytest
from hango import Hango
from hango.sdk import errors
from hango.sdk.values import Decision

from tests.support.scripts import agent, call, turn
from tests.support.stack import Stack

WRITE = call("c1", "write_file", path="/memories/x", content="x")


async def paused(admin: Hango, member: Hango, **more: Any) -> Any:
    saved = await admin.agents.save(agent(turn(WRITE), **more))
    return await member.runs.start(saved.name, "hello", metadata={"ticket": 7}, wait=30)


async def test_agents_and_their_versions(admin: Hango, member: Hango) -> None:
    spec = agent(turn(WRITE))
    first = await admin.agents.save(spec)
    again = await admin.agents.save({**spec, "interrupt_on": {"write_file": False}})
    assert (first.version, again.version, len(again.warnings)) == (1, 2, 1)
    assert (await admin.agents.get(spec["name"])).version == 2
    assert (await admin.agents.get(spec["name"], 1)).spec == spec
    assert spec["name"] in {a.name async for a in admin.agents.list()}
    await admin.agents.delete(spec["name"])
    with pytest.raises(errors.NotFound):
        await admin.agents.get(spec["name"])
    with pytest.raises(errors.Forbidden):
        await member.agents.save(spec)
    with pytest.raises(errors.InvalidRequest) as caught:
        await admin.agents.save({**spec, "limits": {"max_turns": 0}})
    assert caught.value.faults[0].pointer == "/limits/max_turns"


async def test_a_story_from_start_to_end(admin: Hango, member: Hango) -> None:
    run = await paused(admin, member)
    assert (run.state, run.metadata, run.pending_approvals) == (
        "awaiting_approval",
        {"ticket": 7},
        1,
    )
    seen = []
    async for event in member.runs.events(run.id):
        seen.append(event)
        if event.type == "run.suspended":
            pending = await admin.runs.approvals(run.id, state="pending")
            done = await admin.runs.decide(run.id, *[each.approve() for each in pending])
            assert done.approvals[0].decision == "approve"
    assert [event.type for event in seen[-2:]] == ["message.created", "run.finished"]
    assert [event.id for event in seen] == list(range(1, len(seen) + 1))
    later = [event async for event in member.runs.events(run.id, after=seen[3].id)]
    assert later == seen[4:]
    run = await member.runs.get(run.id)
    assert (run.finished, run.output, run.failure) == (True, "done", None)
    transcript = [m async for m in member.runs.messages(run.id)]
    assert [m.role for m in transcript] == ["user", "assistant", "tool", "assistant"]
    assert transcript[1].tool_calls[0].arguments == {"path": "/memories/x", "content": "x"}
    assert run.id in {r.id async for r in member.runs.list(state="succeeded")}
    with pytest.raises(errors.RunFinished):
        await member.runs.cancel(run.id)


async def test_refusals_are_typed(admin: Hango, member: Hango, stack: Stack) -> None:
    run = await paused(
        admin, member, interrupt_on={"write_file": {"allowed_decisions": ["approve", "reject"]}}
    )
    (pending,) = await admin.runs.approvals(run.id)
    assert pending in [each async for each in admin.approvals.list(run_id=run.id)]
    assert await admin.approvals.get(pending.id) == pending
    with pytest.raises(errors.NotAnApprover):
        await member.runs.decide(run.id, pending.approve())
    with pytest.raises(errors.DecisionNotAllowed) as disallowed:
        await admin.runs.decide(run.id, pending.respond("no"))
    assert disallowed.value.allowed == ("approve", "reject")
    with pytest.raises(errors.ApprovalsIncomplete) as incomplete:
        await admin.runs.decide(run.id)
    assert incomplete.value.remaining[0]["approval_id"] == pending.id
    with pytest.raises(errors.ArgumentsChanged):
        await admin.runs.decide(
            run.id, Decision("approve", approval_id=pending.id, arguments_sha256="0" * 64)
        )
    await admin.runs.decide(run.id, Decision("reject", tool_call_id="c1", message="no"))
    with pytest.raises(errors.ApprovalsClosed) as closed:
        await admin.runs.decide(run.id, pending.approve())
    assert closed.value.state
    with pytest.raises(errors.NotFound):
        await admin.runs.get("01890000-0000-7000-8000-000000000000")
    async with Hango(stack.http, "hk_wrong") as stranger:
        with pytest.raises(errors.Unauthenticated):
            await stranger.tools()


async def test_pages_are_walked(admin: Hango, member: Hango) -> None:
    saved = await admin.agents.save(agent())
    for _ in range(3):
        await member.runs.start(saved.name, "x", wait=10)
    started = [r async for r in member.runs.list(agent=saved.name)]
    assert len(started) == 3
    assert started == sorted(started, key=lambda r: r.id, reverse=True)


async def test_cancel(admin: Hango, member: Hango) -> None:
    run = await paused(admin, member)
    assert (await member.runs.cancel(run.id)).state == "cancelled"
    assert (await member.runs.finished(run.id)).state == "cancelled"
