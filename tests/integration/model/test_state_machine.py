"""Any order of the model's steps, over the real SQL of both services."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hango_approvals.domain.suspension import DecisionKind
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.integration.model.checks import Watch
from tests.integration.model.worker import PLANS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from tests.integration.model.world import World

EXAMPLES = int(os.environ.get("HANGO_MODEL_EXAMPLES", "60"))
STEPS = 50
MOST_RUNS = 2
WHICH = st.integers(min_value=0, max_value=7)
KINDS = st.lists(st.sampled_from(DecisionKind), min_size=1, max_size=2)


class Life(RuleBasedStateMachine):
    """One or two runs, their workers, people, sweepers and late messages."""

    world: World
    runner: asyncio.Runner

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[str] = []
        self.broken = False
        self.do(self.world.clear())
        self.watch = Watch(self.world)

    def do(self, step: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.runner.run(step)
        except BaseException:
            self.broken = True
            raise

    @initialize()
    def first(self) -> None:
        self.start()

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule()
    def start(self) -> None:
        self.runs.append(self.do(self.world.start()))

    @rule()
    def claim(self) -> None:
        self.do(self.world.claim())

    # Three of a kind: most of what happens is work.
    @precondition(lambda self: self.world.hands)
    @rule(which=WHICH, plan=st.sampled_from(PLANS))
    def work(self, which: int, plan: Sequence[str]) -> None:
        self.do(_one(self.world.hands, which).step(plan))

    @precondition(lambda self: self.world.hands)
    @rule(which=WHICH, plan=st.sampled_from(PLANS), steps=st.integers(2, 6))
    def work_on(self, which: int, plan: Sequence[str], steps: int) -> None:
        hand = _one(self.world.hands, which)
        for _ in range(steps):
            if not self.do(hand.step(plan)):
                break
            self.look()

    @precondition(lambda self: self.world.hands)
    @rule(which=WHICH)
    def worker_dies(self, which: int) -> None:
        self.world.drop(_one(self.world.hands, which))

    @precondition(lambda self: self.world.hands)
    @rule(which=WHICH)
    def release(self, which: int) -> None:
        self.do(self.world.release(_one(self.world.hands, which)))

    @rule(which=WHICH)
    def lease_ends(self, which: int) -> None:
        self.do(self.world.end_lease(_one(self.runs, which)))
        self.do(self.world.queue.reap(10))

    @rule()
    def close_left(self) -> None:
        self.do(self.world.queue.close_left(10))

    @rule(which=WHICH, kinds=KINDS)
    def decide(self, which: int, kinds: list[DecisionKind]) -> None:
        self.do(self.world.decide(_one(self.runs, which), kinds))

    @rule(which=WHICH)
    def deadline_passes(self, which: int) -> None:
        self.do(self.world.pass_deadline(_one(self.runs, which)))

    @rule()
    def expire(self) -> None:
        self.do(self.world.expire())

    @precondition(lambda self: not self.world.cancels)
    @rule(which=WHICH, arrives=st.booleans(), answered=st.booleans())
    def cancel_begins(self, which: int, arrives: bool, answered: bool) -> None:
        run_id = _one(self.runs, which)
        self.do(self.world.begin_cancel(run_id, arrives=arrives, answered=answered))

    @precondition(lambda self: self.world.cancels)
    @rule(dies=st.booleans())
    def cancel_ends(self, dies: bool) -> None:
        cancel = self.world.cancels.pop()
        if not dies:
            self.do(self.world.end_cancel(cancel))

    @precondition(lambda self: self.world.hands and not self.world.cancels)
    @rule(which=WHICH, plan=st.sampled_from(PLANS), steps=st.integers(1, 4))
    def work_during_a_cancel(self, which: int, plan: Sequence[str], steps: int) -> None:
        hand = _one(self.world.hands, which)
        self.cancel_begins(which=self.runs.index(hand.run.id), arrives=True, answered=True)
        self.work_on(which=which, plan=plan, steps=steps)
        if self.world.cancels:
            self.cancel_ends(dies=False)

    @rule(which=WHICH)
    def open_is_sent_again(self, which: int) -> None:
        if sent := self.do(self.world.rows("open")):
            self.do(self.world.send_open(_one(sent, which)["payload"]))

    @rule(which=WHICH)
    def hint(self, which: int) -> None:
        """Of any suspension that there was: repeated, late, of an older generation."""
        if sent := self.do(self.world.rows("open")):
            suspension = self.do(self.world.suspension(_one(sent, which)["key"]))
            if suspension is not None:
                self.do(self.world.pull(*suspension))

    @precondition(lambda self: self.world.told)
    @rule(which=WHICH, again=st.booleans())
    def answer_arrives(self, which: int, again: bool) -> None:
        told = _one(self.world.told, which)
        self.do(self.world.arrive(told))
        if not again:
            self.world.told.remove(told)

    @rule()
    def withdraws_are_sent(self) -> None:
        self.do(self.world.send_withdraws())

    @rule(backwards=st.booleans())
    def reports_are_sent(self, backwards: bool) -> None:
        self.do(self.world.send_reports(backwards=backwards))

    @rule()
    def reconcile(self) -> None:
        self.do(self.world.reconcile())

    @rule()
    def sweep(self) -> None:
        self.do(self.world.sweep())

    @invariant()
    def look(self) -> None:
        self.do(self.watch.look())

    def teardown(self) -> None:
        if not self.broken:
            self.do(self.world.settle())
            self.do(self.watch.at_rest())


def _one(some: Sequence[Any], which: int) -> Any:
    return some[which % len(some)]


def test_every_order_keeps_the_invariants(world: World, runner: asyncio.Runner) -> None:
    Life.world, Life.runner = world, runner
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=os.environ.get("CI", "") not in ("", "0", "false"),
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
