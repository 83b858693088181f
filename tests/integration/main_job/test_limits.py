"""What ends a run that does not end by itself, and says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2

from tests.support.scripts import GATED, agent, call, fire, turn

if TYPE_CHECKING:
    from tests.support.counting import Ledger
    from tests.support.stack import Client, Stack

FAILED = types_pb2.RUN_STATE_FAILED


async def started(admin: Client, *turns: Any, **more: Any) -> Any:
    spec = agent(*turns, **more)
    await admin.save_agent(spec)
    return await admin.start(spec["name"])


def assert_over(run: Any, limit: str) -> None:
    assert (run.state, run.failure.reason) == (FAILED, "limit_exceeded")
    assert f"the limit {limit} of " in run.failure.message


async def test_the_same_call_again_after_each_refusal(
    stack: Stack, admin: Client, ledger: Ledger
) -> None:
    """Case 15: gated each time; spacing and order of the arguments make no other call of it."""
    again = [
        {"id": f"c{n}", "name": "count__fire", "arguments_raw": raw}
        for n, raw in enumerate(
            (
                '{"item": "no", "amount": 1}',
                '{"amount":1,"item":"no"}',
                '{ "item":"no","amount":1 }',
            )
        )
    ]
    turns = [turn(again[0]), turn(again[1]), turn(fire("other", "other")), turn(again[2])]
    limits = {"max_repeated_refusals": 2}
    run = await started(admin, *turns, interrupt_on=GATED, limits=limits)
    for _ in range(3):
        await admin.decide_all(run.id, "reject")
        run = await admin.run(run.id, wait=20)
    assert_over(run, "max_repeated_refusals")
    assert "count__fire" in run.failure.message
    assert ledger.count("no") == 0
    assert len(await admin.approval_list(run.id)) == 3


async def test_turns(admin: Client) -> None:
    turns = [turn(call(f"c{n}", "ls", path="/")) for n in range(5)]
    assert_over(await started(admin, *turns, limits={"max_turns": 2}), "max_turns")
    assert_over(await started(admin, *turns, limits={"max_model_calls": 3}), "max_model_calls")


async def test_time_of_work(admin: Client) -> None:
    limits = {"max_wall_time": "300ms"}
    turns = [turn(call("c1", "ls", path="/")), turn(delay_ms=60_000)]
    assert_over(await started(admin, *turns, limits=limits), "max_wall_time")


async def test_peoples_time_does_not_count(stack: Stack, admin: Client) -> None:
    """Case 30: the time in which nothing works ends nothing."""
    turns = [turn(fire("c1", "late"))]
    run = await started(admin, *turns, interrupt_on=GATED, limits={"max_wall_time": "20s"})
    earlier = "UPDATE run_events SET at = at - interval '1 hour' WHERE run_id = $1"
    await stack.sql("runner", earlier, run.id)
    shift = "UPDATE runs SET started_at = started_at - interval '1 hour' WHERE id = $1"
    await stack.sql("runner", shift, run.id)
    await admin.decide_all(run.id, "approve")
    assert (await admin.finished(run.id)).state == types_pb2.RUN_STATE_SUCCEEDED


@pytest.mark.parametrize(
    "limits", [{"max_tokens": 0}, {"max_wall_time": "0s"}, {"max_repeated_refusals": 0}]
)
async def test_a_limit_of_nothing_is_refused(admin: Client, limits: dict[str, Any]) -> None:
    from hango_platform.errors import InvalidRequest

    with pytest.raises(InvalidRequest) as caught:
        await admin.save_agent(agent(limits=limits))
    assert json.dumps([v.pointer for v in caught.value.violations]).count("/limits")
