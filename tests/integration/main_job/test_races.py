"""Two at once: one of them happens."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform.errors import ApprovalsClosed, HangoError, IdempotencyMismatch

from tests.support.scripts import GATED, agent, fire, turn

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.support.counting import Ledger
    from tests.support.stack import Client, Stack

SUCCEEDED = types_pb2.RUN_STATE_SUCCEEDED
FAILED = types_pb2.RUN_STATE_FAILED
CANCELLED = types_pb2.RUN_STATE_CANCELLED
APPROVE = {"tool_call_id": "c1", "decision": "approve"}


async def all_ends(*attempts: Awaitable[Any]) -> list[Any]:
    """What each gave: its answer, or its refusal."""
    ends = await asyncio.gather(*attempts, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, HangoError):
            raise end
    return ends


def refused(ends: list[Any]) -> list[type]:
    """The classes of the refusals."""
    return [type(e) for e in ends if isinstance(e, HangoError)]


async def saved(admin: Client, item: str) -> str:
    """The name of an agent that fires at this item, gated."""
    spec = agent(turn(fire("c1", item)), interrupt_on=GATED)
    await admin.save_agent(spec)
    name: str = spec["name"]
    return name


async def test_two_full_decides(stack: Stack, member: Client, ledger: Ledger) -> None:
    """Item 10 and case 1: two concurrent full decides, 200 times: one transition, one execution,
    one 409.
    """
    deciders = stack.users["admin"], stack.users["owner"]
    name = await saved(deciders[0], "two")
    at_once = asyncio.Semaphore(8)

    async def one(n: int) -> str:
        async with at_once:
            run = await member.start(name)
            ends = await all_ends(*(d.decide(run.id, APPROVE) for d in deciders[:: (-1) ** n]))
            assert refused(ends) == [ApprovalsClosed]
            assert (await member.finished(run.id)).state == SUCCEEDED
            found: str = run.id
            return found

    runs = await asyncio.gather(*map(one, range(200)))
    fired = [e["run_id"] for e in ledger.entries("two")]
    assert sorted(fired) == sorted(runs)
    resumed = await stack.sql(
        "runner",
        "SELECT count(*) AS n FROM run_events WHERE type = 'run.resumed' AND run_id = ANY ($1)",
        runs,
    )
    assert resumed[0]["n"] == 200
    decided = await stack.sql(
        "approvals",
        "SELECT count(*) AS n FROM audit_events WHERE action = 'approval.decide'"
        " AND outcome = 'ok' AND run_id = ANY ($1)",
        runs,
    )
    assert decided[0]["n"] == 200


async def test_decide_against_expiry(
    stack: Stack, admin: Client, member: Client, ledger: Ledger
) -> None:
    """Item 10: decide racing expiry → exactly one outcome, with its tool run or not."""
    name = await saved(admin, "late")
    dice = random.Random(1)
    outcomes = set()
    for _ in range(30):
        run = await member.start(name)
        before = ledger.count("late")
        await stack.sql(
            "approvals",
            "UPDATE suspensions SET expires_at = clock_timestamp() + $2 * interval '1 ms'"
            " WHERE run_id = $1 RETURNING id",
            run.id,
            dice.choice([0, 1, 2, 4, 6, 8, 12, 20, 40, 500]),
        )
        ends = await all_ends(
            admin.decide(run.id, APPROVE),
            *(stack.maintain("ExpireSuspensions") for _ in range(3)),
        )
        won = not refused(ends)
        if not won:
            await stack.maintain("ExpireSuspensions")
            await stack.maintain("ReconcileRuns")
        over = await member.finished(run.id)
        assert over.state == (SUCCEEDED if won else FAILED)
        assert ledger.count("late") - before == won
        (approval,) = await admin.approval_list(run.id)
        assert (approval.state == types_pb2.APPROVAL_STATE_DECIDED) == won
        ok = [e.action for e in await admin.audit(run_id=run.id) if e.outcome == "ok"]
        assert ("approval.decide" in ok, "approval.expire" in ok) == (won, not won)
        outcomes.add(won)
    assert outcomes == {True, False}


async def test_decide_against_cancel(stack: Stack, admin: Client, member: Client) -> None:
    """Decide racing cancel: the run is cancelled or had finished; A and R agree on what became of
    the call.
    """
    name = await saved(admin, "cancelled")
    for n in range(20):
        run = await member.start(name)
        attempts = [admin.decide(run.id, APPROVE), member.cancel(run.id)]
        await all_ends(*attempts[:: (-1) ** n])
        over = await member.finished(run.id)
        assert over.state in (CANCELLED, SUCCEEDED)
        (approval,) = await admin.approval_list(run.id)
        if approval.state == types_pb2.APPROVAL_STATE_WITHDRAWN:
            assert over.state == CANCELLED
            kinds = [e.type for e in await member.events(run.id)]
            assert kinds[-2:] == ["approval.withdrawn", "run.finished"]
        else:
            assert approval.state == types_pb2.APPROVAL_STATE_DECIDED


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_decide_repeated_with_its_key(
    admin: Client, member: Client, ledger: Ledger, at_once: bool
) -> None:
    """Idempotency of decide: the first answer again, also at the same moment; another body is
    refused; another user's key is another key.
    """
    item = f"key-{at_once}"
    name = await saved(admin, item)
    run = await member.start(name)
    if at_once:
        ends = await all_ends(
            *(admin.decide(run.id, APPROVE, idempotency_key="k") for _ in range(5))
        )
    else:
        ends = [await admin.decide(run.id, APPROVE, idempotency_key="k") for _ in range(2)]
    assert refused(ends) == []
    assert len({e.resume_event_id for e in ends}) == 1
    await member.finished(run.id)
    again = await admin.decide(run.id, APPROVE, idempotency_key="k")
    assert again.resume_event_id == ends[0].resume_event_id
    with pytest.raises(IdempotencyMismatch):
        await admin.decide(run.id, {**APPROVE, "decision": "reject"}, idempotency_key="k")
    with pytest.raises(ApprovalsClosed):
        await admin.decide(run.id, APPROVE, idempotency_key="other")
    assert ledger.count(item) == 1


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_start_repeated_with_its_key(
    stack: Stack, admin: Client, member: Client, at_once: bool
) -> None:
    """Idempotency of StartRun: one run, also at the same moment; another input is refused."""
    name = await saved(admin, "start")
    more: dict[str, Any] = {"idempotency_key": f"k-{at_once}", "wait": 0}
    if at_once:
        ends = await all_ends(*(member.start(name, **more) for _ in range(5)))
    else:
        ends = [await member.start(name, **more) for _ in range(2)]
    assert refused(ends) == []
    assert len({r.id for r in ends}) == 1
    assert len(await member.runs(agent=name)) == 1
    with pytest.raises(IdempotencyMismatch):
        await member.start(name, "something else", **more)
    other = await stack.users["other-member"].start(name, **more)
    assert other.id != ends[0].id


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_cancel_repeated_with_its_key(admin: Client, member: Client, at_once: bool) -> None:
    """Idempotency of CancelRun: the first answer again, also at the same moment."""
    name = await saved(admin, "cancel-key")
    run = await member.start(name)
    if at_once:
        ends = await all_ends(*(member.cancel(run.id, idempotency_key="k") for _ in range(5)))
    else:
        ends = [await member.cancel(run.id, idempotency_key="k") for _ in range(2)]
    assert refused(ends) == []
    assert {r.state for r in ends} == {CANCELLED}
    kinds = [e.type for e in await member.events(run.id)]
    assert kinds.count("run.finished") == 1
    audited = await admin.audit(run_id=run.id, action="approval.withdraw")
    assert [e.outcome for e in audited] == ["ok"]
    assert [json.loads(e.detail_json) for e in audited]
