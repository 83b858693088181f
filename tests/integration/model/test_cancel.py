"""A cancel that races with a pause: nobody decides after it was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.model import scenarios
from tests.integration.model.scenarios import APPROVE, BOTH

if TYPE_CHECKING:
    import asyncio

    from tests.integration.model.world import World


def test_a_run_pauses_while_it_is_cancelled(world: World, runner: asyncio.Runner) -> None:
    """There was nothing to withdraw when the cancel looked, and there is when it commits."""

    async def race() -> None:
        await world.clear()
        hand = await scenarios.claimed(world)
        await world.begin_cancel(hand.run.id)
        assert await hand.step(BOTH)
        assert await hand.step()
        if await world.end_cancel(world.cancels.pop()):
            # Answered, so A must have been told: `decide` asserts it.
            await world.decide(hand.run.id, APPROVE)
        await scenarios.ends_well(world)

    runner.run(race())
