"""Checkpoints, and where two runs from one part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform.errors import (
    Conflict,
)

from tests.support import history
from tests.support.scripts import FIRE, GATED, agent, call, fire, turn

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.stack import Client

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


async def test_every_point_where_the_loop_could_stop(admin: Client, member: Client) -> None:
    """A checkpoint at the start, behind each answer and each batch, and at the end; the state there
    is what was so then.
    """
    todos = [{"content": "pay", "status": "pending"}]
    name = await saved(
        admin, turn(call("t1", "write_todos", todos=todos)), turn(fire("c1", "points"))
    )
    run = await approved(admin, member, name)
    found = await history.checkpoints(member, run.id)
    assert [(c.turn, c.next, c.message_count) for c in found] == [
        (0, "model", 1),
        (1, "tools", 2),
        (1, "model", 3),
        (2, "tools", 4),
        (2, "model", 5),
        (3, "model", 6),
    ]
    everything = await member.messages(run.id)
    for c in found:
        upto = await history.messages_until(member, run.id, c.checkpoint_id)
        assert upto == everything[: c.message_count]
        state = await history.checkpoint(member, run.id, c.checkpoint_id, page_size=200)
        assert state.checkpoint == c
        assert list(state.messages) == upto
        assert json.loads(state.todos_json or b"[]") == (todos if c.message_count > 2 else [])
        pending = [(p.call.id, p.call.name, p.ruling) for p in state.pending_calls]
        assert pending == {
            2: [("t1", "write_todos", "free")],
            4: [("c1", FIRE, "gated")],
        }.get(c.message_count, [])
    page = await history.checkpoint(member, run.id, found[-1].checkpoint_id, page_size=4)
    rest = await history.checkpoint(
        member, run.id, found[-1].checkpoint_id, page_size=4, page_token=page.next_page_token
    )
    assert [*page.messages, *rest.messages] == everything
    assert not rest.next_page_token


async def test_where_two_runs_part(admin: Client, member: Client, ledger: Ledger) -> None:
    """Calls and results of both from the parting on, by pages; strangers have nothing in common."""
    name = await saved(
        admin,
        turn(call("c0", "ls", path="/")),
        turn(fire("c1", "parts"), call("c2", "write_file", path="/a", content="b")),
    )
    run = await approved(admin, member, name)
    forked = await history.fork(member, run.id, await history.point(member, run.id, 2, "tools"))
    fork = await history.settled(member, forked)
    open_ = await history.diff(member, run.id, fork.id)
    assert (open_.origin_run_id, open_.shared_messages) == (run.id, 3)
    assert [(p.step, p.call_index, p.same) for p in open_.calls] == [(0, 0, False), (0, 1, False)]
    assert open_.calls[0].other_call.state == "none"
    await admin.decide_all(fork.id, "reject", message="no")
    await member.finished(fork.id)
    found = await history.diff(member, run.id, fork.id)
    assert [(p.step, p.call_index, p.same) for p in found.calls] == [(0, 0, False), (0, 1, True)]
    here, there = found.calls[0].call, found.calls[0].other_call
    assert here.call == there.call
    assert (here.decision, here.is_error) == ("approve", False)
    assert (there.decision, there.is_error) == ("reject", True)
    assert "no" in json.loads(there.result_json)
    mirrored = await history.diff(member, fork.id, run.id)
    assert mirrored.calls[0].call == there
    page = await history.diff(member, run.id, fork.id, page_size=1)
    rest = await history.diff(member, run.id, fork.id, page_size=1, page_token=page.next_page_token)
    assert [*page.calls, *rest.calls] == list(found.calls)
    assert not rest.next_page_token
    sibling = await history.fork(
        member, run.id, await history.point(member, run.id, 1, "model"), "else"
    )
    await member.run(sibling.run.id, wait=20)
    cousins = await history.diff(member, fork.id, sibling.run.id)
    assert (cousins.origin_run_id, cousins.shared_messages) == (run.id, 3)
    assert not list((await history.diff(member, run.id, run.id)).calls)
    stranger = await member.start(name)
    with pytest.raises(Conflict):
        await history.diff(member, run.id, stranger.id)
