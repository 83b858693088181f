"""A worker's hold of one run, as steps of one transaction or one effect each.

It does what hango_runner's loop, chain and executor do, in their order, but stops after each step,
so that anything may happen in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hango_platform import ids
from hango_runner import mapping
from hango_runner.agent.state import (
    AskedCall,
    Call,
    CallKey,
    ExecState,
    Finished,
    LeaseLost,
    Message,
    Ruling,
    Suspension,
    Usage,
)
from hango_runner.agent.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_runner.agent.state import Run

    from tests.integration.model.world import Told, World

TURNS = 2
PLANS = (("gated", "gated"), ("gated", "free"), ("free",), ("free", "gated"))
RULE: dict[str, Any] = {"source": "user", "entry": "pay", "allowed_decisions": [], "when": None}
ALLOWED = ("approve", "edit", "reject", "respond")
UNKNOWN = ToolResult("nobody knows", is_error=True)
DONE = ToolResult("done")


class Hand:
    """One claim of a run. `doing` is the call whose tool is under way, `acted` whether it has had
    its effect.
    """

    def __init__(self, world: World, run: Run) -> None:
        self._world = world
        self.run = run
        self.calls: list[Call] | None = None
        self.results: list[ToolResult] = []
        self.doing: Call | None = None
        self.acted = False
        self.suspension: Suspension | None = None
        self.told: Told | None = None

    async def step(self, plan: Sequence[str] = PLANS[0]) -> bool:
        """The next step; False where there is none any more, since the run is let go or lost."""
        try:
            goes_on = await self._step(plan)
        except LeaseLost:
            goes_on = False
        if not goes_on:
            self._world.drop(self)
        return goes_on

    async def run_on(self) -> None:
        """Step until there is no next one."""
        while await self.step():
            pass

    async def _step(self, plan: Sequence[str]) -> bool:
        if self.suspension is not None:
            return await self._open(self.suspension)
        if self.doing is not None:
            await (self._finish(self.doing) if self.acted else self._act(self.doing))
        elif self.run.next == "tools":
            await self._go_on()
        elif self.run.turn < TURNS:
            await self._answer(plan)
        else:
            await self._world.journal.ended(self.run, Finished(True, output="done"))
            return False
        return True

    async def _open(self, suspension: Suspension) -> bool:
        """S1, then T2b."""
        if self.told is None:
            self.told = await self._world.send_open(mapping.open_request(suspension))
            return True
        await self._world.arrive(self.told)
        return False

    async def _answer(self, plan: Sequence[str]) -> None:
        """T1b, with T2 where a call is gated."""
        run = self.run
        calls = [_call(run, place, ruling) for place, ruling in enumerate(plan)]
        suspension = _suspension(run, [c for c in calls if c.ruling is Ruling.GATED])
        asked = tuple(AskedCall(c.tool_call_id, c.tool_name, c.arguments.decode()) for c in calls)
        message = Message("assistant", "well", asked)
        await self._world.journal.answered(run, message, Usage(1, 1), calls, suspension)
        self.suspension, self.calls, self.results = suspension, calls, []
        run.turn, run.next = run.turn + 1, "tools"

    async def _go_on(self) -> None:
        """The next call of the batch, or T8b."""
        if self.calls is None:
            self.calls = (await self._world.journal.load(self.run)).calls
        if len(self.results) == len(self.calls):
            await self._world.journal.batch_done(
                self.run,
                [_message(c, r) for c, r in zip(self.calls, self.results, strict=True)],
            )
            self.run.next, self.calls = "model", None
            return
        call = self.calls[len(self.results)]
        if call.exec_state.settled:
            self.results.append(call.result or UNKNOWN)
        elif call.exec_state is ExecState.STARTED:
            await self._world.journal.gave_up(self.run, call, ExecState.UNKNOWN, UNKNOWN)
            self.results.append(UNKNOWN)
        elif call.ruling is Ruling.GATED:
            await self._decided(call)
        else:
            await self._start(call)

    async def _decided(self, call: Call) -> None:
        assert call.decision is not None, f"{call.key} has no decision, but its run goes on"
        if call.decision.kind in ("reject", "respond"):
            self.results.append(ToolResult("no", is_error=True))
        else:
            assert call.decision.raw is not None
            await self._start(replace(call, arguments=call.decision.raw))

    async def _start(self, call: Call) -> None:
        """T7."""
        await self._world.journal.started(self.run, call, "once")
        self.doing, self.acted = call, False

    async def _act(self, call: Call) -> None:
        """The tool does what it does: never twice, and never without its decision in A."""
        effects = self._world.history.effects
        effects[self.run.id, call.key] += 1
        assert effects[self.run.id, call.key] == 1, f"{call.key} has run twice"
        if call.ruling is Ruling.GATED:
            row = await self._world.a_admin.fetchrow(
                "SELECT decision, coalesce(decision_args_raw, arguments_raw) AS raw"
                " FROM pending_approvals WHERE run_id = $1 AND turn = $2 AND call_index = $3",
                self.run.id,
                call.key.turn,
                call.key.call_index,
            )
            assert row is not None, f"{call.key} was never asked about"
            assert row["decision"] in ("approve", "edit"), f"{call.key} was not approved"
            assert row["raw"] == call.arguments, f"{call.key} has run with other bytes"
        self.acted = True

    async def _finish(self, call: Call) -> None:
        """T8."""
        self.doing = None
        await self._world.journal.finished(self.run, call, ExecState.SUCCEEDED, DONE)
        self.results.append(DONE)


def _call(run: Run, place: int, ruling: str) -> Call:
    gated = ruling == "gated"
    return Call(
        key=CallKey("", run.turn, place),
        tool_call_id=f"call_{run.turn}_{place}",
        tool_name="pay",
        arguments=b'{"amount": 1%d%d}' % (run.turn, place),
        ruling=Ruling(ruling),
        rule=RULE if gated else None,
        allowed=ALLOWED if gated else (),
        parameters={"type": "object"} if gated else None,
    )


def _suspension(run: Run, waiting: Sequence[Call]) -> Suspension | None:
    if not waiting:
        return None
    return Suspension(
        id=ids.suspension_id(run.id, run.gen + 1),
        run_id=run.id,
        tenant_id=run.tenant_id,
        gen=run.gen + 1,
        turn=run.turn,
        agent=run.agent,
        agent_version=run.agent_version,
        requested_by=run.created_by,
        calls=tuple(waiting),
    )


def _message(call: Call, result: ToolResult) -> Message:
    return Message(
        "tool",
        result.text,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        is_error=result.is_error,
    )
