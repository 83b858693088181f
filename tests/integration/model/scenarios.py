"""One short story for each guard: it ends well on the SQL as it is, and badly without the guard.

Each raises AssertionError (or PostgreSQL refuses what it was told) where the guard is missing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from hango_approvals.domain.suspension import DecisionKind, Ruling, State, Suspension
from hango_platform import ids
from hango_runner.agent.state import ExecState, LeaseLost
from hango_runner.domain.verdict import CallVerdict, IncompleteVerdict
from hango_runner.postgres.queue import MOST_ATTEMPTS

from tests.integration.model.checks import Watch
from tests.integration.model.worker import DONE, TURNS, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from hango_runner.agent.state import Call

    from tests.integration.model.worker import Hand
    from tests.integration.model.world import World

    Scenario = Callable[[World], Coroutine[Any, Any, None]]

FREE, BOTH, MIXED = ("free",), ("gated", "gated"), ("gated", "free")
APPROVE = [DecisionKind.APPROVE]


# Where stories begin


async def claimed(world: World) -> Hand:
    """A run in its only worker's hand, before its first answer."""
    await world.start()
    return (await world.claim())[0]


async def asked(world: World, plan: Sequence[str] = FREE) -> Hand:
    """Before the first call of a batch starts; the batch is not gated."""
    hand = await claimed(world)
    assert await hand.step(plan)
    return hand


async def acting(world: World) -> Hand:
    """A tool is under way."""
    hand = await asked(world)
    assert await hand.step()
    return hand


async def left(world: World) -> Hand:
    """The next worker, before a call that the one before it has started."""
    hand = await acting(world)
    return await stolen_by(world, hand)


async def batched(world: World) -> Hand:
    """Before T8b."""
    hand = await acting(world)
    assert await hand.step()
    assert await hand.step()
    return hand


async def through(world: World) -> Hand:
    """Before T9."""
    hand = await claimed(world)
    while not (hand.run.next == "model" and hand.run.turn == TURNS):
        assert await hand.step(FREE)
    return hand


async def paused(world: World, plan: Sequence[str] = BOTH, *, opened: bool = True) -> Hand:
    """The run waits; without `opened` S1 is done and its answer is in `world.told`."""
    hand = await claimed(world)
    await hand.step(plan)
    await hand.step()
    if opened:
        await hand.step()
    return hand


async def resumed(world: World, plan: Sequence[str] = BOTH) -> Hand:
    """The next worker, before the first call of a batch that was approved."""
    first = await paused(world, plan)
    assert await world.decide(first.run.id, APPROVE)
    await world.reconcile()
    return (await world.claim())[0]


async def stolen_by(world: World, hand: Hand) -> Hand:
    """T6, and another worker's T1."""
    await world.end_lease(hand.run.id)
    await world.queue.reap(10)
    return (await world.claim())[0]


async def ends_well(world: World) -> None:
    """Everybody does what is left to do, and nothing is wrong then."""
    watch = Watch(world)
    await watch.look()
    await world.settle()
    await watch.at_rest()


# What may not be done any more


async def another_holds_it(before: Callable[[World], Awaitable[Hand]], world: World) -> None:
    """A worker whose run was taken goes on from where it was frozen."""
    hand = await before(world)
    await stolen_by(world, hand)
    assert not await hand.step(), "a frozen worker went on"
    assert await state_of(world, hand) == "running", "a frozen worker ended another's run"
    await ends_well(world)


async def it_was_let_go(before: Callable[[World], Awaitable[Hand]], world: World) -> None:
    """A worker goes on with a run that it has released: nobody has bumped the epoch since."""
    hand = await before(world)
    await world.queue.release(hand.run)
    assert not await hand.step(), "a worker went on with what it had let go"
    assert await state_of(world, hand) == "queued", "a worker ended what it had let go"
    await ends_well(world)


async def refused(step: Awaitable[None], what: str) -> None:
    """The step must find that its row is not there for it."""
    try:
        await step
    except LeaseLost:
        return
    raise AssertionError(what)


async def call_of(world: World, hand: Hand, place: int = 0) -> Call:
    """A call of the hand's batch as its row is now."""
    return (await world.journal.load(hand.run)).calls[place]


async def once_is_not_repeated(world: World) -> None:
    hand = await left(world)
    call = await call_of(world, hand)
    await refused(world.journal.started(hand.run, call, "once"), "a once call started again")


async def read_is_not_started_twice(world: World) -> None:
    hand = await asked(world)
    call = await call_of(world, hand)
    await world.journal.started(hand.run, call, "read")
    await refused(world.journal.started(hand.run, call, "read"), "started twice by one worker")


async def what_is_done_is_not_started(world: World) -> None:
    hand = await batched(world)
    call = await call_of(world, hand)
    await refused(world.journal.started(hand.run, call, "once"), "a finished call started again")


async def undecided_is_not_started(world: World) -> None:
    hand = await resumed(world, MIXED)
    await world.r_admin.execute("UPDATE tool_calls SET decision = NULL, decided_sha256 = NULL")
    call = await call_of(world, hand)
    await refused(world.journal.started(hand.run, call, "once"), "an undecided call started")


async def rejected_is_not_started(world: World) -> None:
    """Even where A sends bytes along with a rejection."""
    hand = await resumed(world, MIXED)
    await world.r_admin.execute("UPDATE tool_calls SET decision = 'reject' WHERE ruling = 'gated'")
    call = await call_of(world, hand)
    await refused(world.journal.started(hand.run, call, "once"), "a rejected call started")


async def other_bytes_are_not_started(plan: Sequence[str], world: World) -> None:
    hand = await asked(world) if plan is FREE else await resumed(world, plan)
    call = replace(await call_of(world, hand), arguments=b"{}")
    await refused(world.journal.started(hand.run, call, "once"), "other bytes started")


async def a_result_is_of_who_started(world: World) -> None:
    hand = await asked(world)
    call = await call_of(world, hand)
    await world.journal.started(hand.run, call, "read")
    other = await stolen_by(world, hand)
    await world.journal.started(other.run, call, "read")
    late = world.journal.finished(hand.run, call, ExecState.SUCCEEDED, DONE)
    await refused(late, "an older attempt has given the result")


async def a_result_is_given_once(world: World) -> None:
    hand = await batched(world)
    call = await call_of(world, hand)
    again = world.journal.finished(hand.run, call, ExecState.FAILED, UNKNOWN)
    await refused(again, "a call has two results")


async def a_story_ends(world: World) -> None:
    """A tool that ends after its run was cancelled."""
    hand = await acting(world)
    await cancelled(world, hand.run.id)
    await hand.step()
    await hand.step()
    await ends_well(world)


async def what_is_done_is_not_given_up(world: World) -> None:
    hand = await batched(world)
    call = await call_of(world, hand)
    late = world.journal.gave_up(hand.run, call, ExecState.UNKNOWN, UNKNOWN)
    await refused(late, "a result was replaced")


async def what_is_under_way_is_not_given_up(world: World) -> None:
    hand = await acting(world)
    call = await call_of(world, hand)
    own = world.journal.gave_up(hand.run, call, ExecState.UNKNOWN, UNKNOWN)
    await refused(own, "a call that is under way was given up")


# The queue


async def state_of(world: World, hand: Hand) -> str:
    """The run's state."""
    found: str = await world.r_admin.fetchval("SELECT state FROM runs WHERE id = $1", hand.run.id)
    return found


async def call_state(world: World, place: int = 0) -> str:
    """The state of a call of the only batch."""
    found: str = await world.r_admin.fetchval(
        "SELECT exec_state FROM tool_calls WHERE call_index = $1", place
    )
    return found


async def cancelled(world: World, run_id: str) -> None:
    """T5."""
    await world.begin_cancel(run_id)
    assert await world.end_cancel(world.cancels.pop())


async def only_queued_is_claimed(world: World) -> None:
    await claimed(world)
    assert not await world.claim(), "claimed what another has"


async def a_lane_is_kept(world: World) -> None:
    await world.start()
    assert not await world.queue.claim("other", 1, timedelta(hours=1)), "claimed from another lane"


async def a_stolen_lease_is_not_renewed(world: World) -> None:
    hand = await claimed(world)
    await stolen_by(world, hand)
    assert not await world.queue.renew([hand.run], timedelta(hours=1)), "renewed another's lease"


async def a_released_lease_is_not_renewed(world: World) -> None:
    hand = await claimed(world)
    await world.queue.release(hand.run)
    assert not await world.queue.renew([hand.run], timedelta(hours=1)), "renewed what was let go"


async def anothers_run_is_not_released(world: World) -> None:
    hand = await claimed(world)
    await stolen_by(world, hand)
    await world.queue.release(hand.run)
    assert await state_of(world, hand) == "running", "a frozen worker let go of another's run"


async def a_paused_run_is_not_released(world: World) -> None:
    hand = await paused(world)
    await world.queue.release(hand.run)
    assert await state_of(world, hand) == "awaiting_approval", "a release has resumed a run"


async def a_cancelled_run_is_not_reaped(world: World) -> None:
    hand = await claimed(world)
    await cancelled(world, hand.run.id)
    await world.end_lease(hand.run.id)
    await world.queue.reap(10)
    assert await state_of(world, hand) == "cancelled", "a cancelled run lives again"


async def a_live_lease_is_not_reaped(world: World) -> None:
    hand = await claimed(world)
    await world.queue.reap(10)
    assert await state_of(world, hand) == "running", "a worker lost a lease that was not over"


async def attempts_end(world: World) -> None:
    hand = await claimed(world)
    for _ in range(MOST_ATTEMPTS):
        hand = await stolen_by(world, hand)
    await world.end_lease(hand.run.id)
    await world.queue.reap(10)
    assert await state_of(world, hand) == "failed", "a run that kills its workers goes on for ever"


async def not_exhausted(spoil: str, world: World) -> None:
    """What was found exhausted is looked at again under its lock."""
    hand = await claimed(world)
    good = "state = 'running', lease_until = clock_timestamp() - interval '1 s', attempts = 9"
    await world.r_admin.execute(f"UPDATE runs SET {good}")
    await world.r_admin.execute(f"UPDATE runs SET {spoil}")
    before = await state_of(world, hand)
    await world.queue._exhaust(world.tenant_id, hand.run.id)
    assert await state_of(world, hand) == before, "a run was ended that could go on"


async def only_what_runs_is_closed(world: World) -> None:
    hand = await acting(world)
    await world.end_lease(hand.run.id)
    await world.queue.close_left(10)
    assert await call_state(world) == "started", "a live run's call was closed"


async def a_worker_may_end_its_call(world: World) -> None:
    hand = await acting(world)
    await cancelled(world, hand.run.id)
    await world.queue.close_left(10)
    assert await call_state(world) == "started", "closed before the worker's lease was over"


async def only_started_becomes_unknown(world: World) -> None:
    hand = await asked(world, ("free", "free"))
    for _ in range(4):
        assert await hand.step()
    await cancelled(world, hand.run.id)
    await world.end_lease(hand.run.id)
    await world.queue.close_left(10)
    assert await call_state(world, 1) == "unknown"
    assert await call_state(world, 0) == "succeeded", "a result was taken back"


async def what_has_started_is_not_skipped(world: World) -> None:
    hand = await acting(world)
    await cancelled(world, hand.run.id)
    assert await call_state(world) == "started", "a call that is under way was skipped"


# From the pause to the resume


async def second_pause(world: World) -> tuple[Hand, Any]:
    """A run that waits again, and S1's answer of the first time."""
    hand = await resumed(world)
    first = world.told[0]
    while hand.suspension is None:
        assert await hand.step(MIXED)
    return hand, first


async def an_old_answer_opens_nothing(world: World) -> None:
    _, first = await second_pause(world)
    await world.arrive(first)
    await ends_well(world)


async def an_old_verdict_resumes_nothing(world: World) -> None:
    hand, first = await second_pause(world)
    await world.send_open((await world.rows("open"))[-1]["payload"])
    told = await world.pull(hand.run.id, first.verdict.suspension_id)
    assert told is not None
    await world.arrive(told)
    assert await state_of(world, hand) == "awaiting_approval", "resumed by an older verdict"


async def a_verdict_resumes_once(world: World) -> None:
    hand = await resumed(world)
    told = await world.pull(hand.run.id, ids.suspension_id(hand.run.id, 1))
    assert told is not None
    await world.arrive(told)
    assert await state_of(world, hand) == "running", "resumed a run that goes on already"


async def a_cancelled_run_is_not_opened(world: World) -> None:
    hand = await paused(world, opened=False)
    await cancelled(world, hand.run.id)
    await world.arrive(world.told[0])
    await Watch(world).look()


async def opened_once(world: World) -> None:
    await paused(world)
    await world.arrive(world.told[0])
    await Watch(world).look()


async def a_free_call_takes_no_decision(world: World) -> None:
    hand = await paused(world, ("free", "gated"))
    assert await world.decide(hand.run.id, APPROVE)
    told = await world.pull(hand.run.id, ids.suspension_id(hand.run.id, 1))
    assert told is not None
    odd = CallVerdict(ids.new_id(), "", 0, decision="reject")
    verdict = replace(told.verdict, calls=[*told.verdict.calls, odd])
    with suppress(IncompleteVerdict):
        await world.arrive(replace(told, verdict=verdict))
    assert await call_state(world) == "none", "a decision fell on a call that was not gated"


async def decisions_stand(world: World) -> None:
    """The second pause is rejected where the first was approved."""
    hand, _ = await second_pause(world)
    await world.send_open((await world.rows("open"))[-1]["payload"])
    await world.decide(hand.run.id, [DecisionKind.REJECT])
    await world.reconcile()
    first = await world.r_admin.fetchval(
        "SELECT decision FROM tool_calls WHERE turn = 0 AND call_index = 0"
    )
    assert first == "approve", "an older call's decision was replaced"


# A


async def stale(world: World, run_id: str) -> Suspension:
    """The suspension as somebody read it who comes too late to write."""
    async with world.store.tenant(world.tenant_id) as work:
        found = await work.suspensions.lock(world.tenant_id, ids.suspension_id(run_id, 1))
        assert found is not None
        return await work.suspensions.with_approvals(found)


async def decide_stale(world: World, suspension: Suspension) -> None:
    """The write of a decide whose reading is old."""
    rulings = [Ruling(DecisionKind.APPROVE) for _ in suspension.approvals]
    async with world.store.tenant(world.tenant_id) as work:
        closed = await work.suspensions.close_as_decided(
            suspension, rulings, by=world.admin.user_id
        )
    assert closed is None, "decided what was closed or late"


async def withdrawn_is_not_decided(world: World) -> None:
    hand = await paused(world)
    suspension = await stale(world, hand.run.id)
    await world.begin_cancel(hand.run.id)
    await decide_stale(world, suspension)


async def late_is_not_decided(world: World) -> None:
    hand = await paused(world)
    suspension = await stale(world, hand.run.id)
    await world.pass_deadline(hand.run.id)
    await decide_stale(world, suspension)


async def decided_is_not_closed(world: World) -> None:
    hand = await paused(world)
    suspension = await stale(world, hand.run.id)
    assert await world.decide(hand.run.id, APPROVE)
    async with world.store.tenant(world.tenant_id) as work:
        closed = await work.suspensions.close(suspension, State.WITHDRAWN, by=None)
    assert closed is None, "withdrawn what was decided"


async def decided_does_not_expire(world: World) -> None:
    hand = await paused(world)
    assert await world.decide(hand.run.id, APPROVE)
    await world.a_admin.execute("UPDATE suspensions SET expires_at = created_at")
    async with world.store.system() as work:
        assert await work.suspensions.lock_due() is None, "expires what was decided"


async def nothing_expires_early(world: World) -> None:
    await paused(world)
    assert await world.expire() == 0, "expired before its deadline"


answer_fenced = partial(another_holds_it, claimed)
answer_live = partial(it_was_let_go, claimed)
start_fenced = partial(another_holds_it, asked)
start_live = partial(it_was_let_go, asked)
give_up_fenced = partial(another_holds_it, left)
give_up_live = partial(it_was_let_go, left)
batch_fenced = partial(another_holds_it, batched)
batch_live = partial(it_was_let_go, batched)
finish_fenced = partial(another_holds_it, through)
finish_live = partial(it_was_let_go, through)
free_bytes = partial(other_bytes_are_not_started, FREE)
decided_bytes = partial(other_bytes_are_not_started, MIXED)
not_exhausted_but_queued = partial(not_exhausted, "state = 'queued'")
not_exhausted_but_renewed = partial(
    not_exhausted, "lease_until = clock_timestamp() + interval '1 h'"
)
not_exhausted_but_answered = partial(not_exhausted, "attempts = 0")
