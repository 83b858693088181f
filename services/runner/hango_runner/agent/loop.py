"""The loop: ask the model, judge its calls, run them, until it is done or must wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from hango_platform import ids
from hango_policy import strict_json

from hango_runner.agent.calls import ids_in, read_calls
from hango_runner.agent.chain import AwaitingApproval, ToolCall, onion
from hango_runner.agent.limits import Budget
from hango_runner.agent.model import ModelFailed, ModelRequest
from hango_runner.agent.state import (
    Answer,
    AskedCall,
    ExecState,
    Finished,
    Message,
    Ruling,
    Suspension,
    gated,
)
from hango_runner.agent.tools import ToolResult
from hango_runner.agent.toolset import TASK, allowed_tools
from hango_runner.domain.run import FailureReason
from hango_runner.domain.spec import as_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hango_runner.agent.chain import Middleware
    from hango_runner.agent.executor import Executor
    from hango_runner.agent.model import Model
    from hango_runner.agent.ports import Catalog, Journal
    from hango_runner.agent.state import Call, Loaded, Notes, Run
    from hango_runner.domain.spec import ScriptedModel


class Drained(Exception):
    """The worker is to stop, and the run is at a point where it can be let go."""


@dataclass(frozen=True, slots=True)
class Waits:
    """An agent stops here until people have decided on these calls, its own or its subagents'.

    None: another agent of the run waits, and this one starts nothing more. `stored`: the
    suspension was committed with the answer.
    """

    calls: tuple[Call, ...]
    stored: Suspension | None = None


Outcome: TypeAlias = Finished | Waits


class Loop:
    """Drives one claimed run at a time; holds nothing between two of them.

    `layers` are the onion, outermost first.
    """

    def __init__(
        self,
        journal: Journal,
        catalog: Catalog,
        layers: Sequence[Middleware],
        executor: Executor,
        model_for: Callable[[str | ScriptedModel], Model],
    ) -> None:
        self._journal = journal
        self._catalog = catalog
        self._layers = layers
        self._executor = executor
        self._model_for = model_for

    async def drive(self, run: Run, leave: Callable[[], bool]) -> Suspension | None:
        """Go on with the run until it ends (None) or waits for people (what to open).

        `leave` says whether the worker is to stop. Raises LeaseLost where the run is not ours any
        more, Drained where it was let go in between.
        """
        loaded = await self._journal.load(run)
        outcome = await _Drive(self, leave, Budget(run, loaded)).go_on(run, loaded)
        if isinstance(outcome, Finished):
            await self._journal.ended(run, outcome)
            return None
        if outcome.stored is not None:
            return outcome.stored
        suspension = _suspension(run, run.turn - 1, outcome.calls)
        await self._journal.suspended(run, suspension)
        return suspension


class _Drive:
    """One drive of one run: all its agents, and what they share."""

    def __init__(self, loop: Loop, leave: Callable[[], bool], budget: Budget) -> None:
        self._journal = loop._journal  # noqa: SLF001  the loop's own half
        self._catalog = loop._catalog  # noqa: SLF001
        self._layers = loop._layers  # noqa: SLF001
        self._executor = loop._executor  # noqa: SLF001
        self._model_for = loop._model_for  # noqa: SLF001
        self._chain = onion(self._layers, self._execute)
        self._leave = leave
        self._budget = budget

    async def go_on(self, run: Run, loaded: Loaded) -> Outcome:
        """Drive one agent from where it stands until it ends or waits."""
        messages, calls, replay = loaded.messages, loaded.calls, loaded.replay
        # Children that were called side by side all get to their first answer: one suspension.
        begins = run.next == "model"
        while True:
            if run.next == "tools":
                waiting = gated(calls) if run.path else ()
                done = Waits(waiting) if waiting else await self._run_batch(run, calls)
                if isinstance(done, Waits):
                    run.progress.pausing = True
                    return done
                await self._journal.batch_done(run, done)
                run.next = "model"
                messages.extend(done)
            if run.next == "done":
                return Finished(True, output=str(messages[-1].content))
            if self._leave():
                raise Drained
            if run.progress.pausing and not begins:
                return Waits(())
            begins = False
            if over := self._budget.over(run.turn):
                return over
            try:
                async with asyncio.timeout(self._budget.seconds_left()):
                    answer = replay or await self._ask(run, messages, loaded.notes)
            except TimeoutError:
                if (over := self._budget.over(run.turn)) is None:
                    raise
                return over
            except ModelFailed as error:
                return Finished(False, reason=FailureReason.MODEL_ERROR, message=str(error))
            if not answer.tool_calls:
                return await self._last(run, answer)
            calls = self._judge(run, answer, messages)
            self._budget.use(answer.usage)
            if over := self._budget.asked_too_often(calls):
                return replace(over, answer=Answer(answer.text, usage=answer.usage))
            waiting = gated(calls)
            suspension = _suspension(run, run.turn, waiting) if waiting and not run.path else None
            message = Message("assistant", answer.text, _as_asked(answer, calls))
            await self._journal.answered(run, message, answer.usage, calls, suspension)
            if suspension is not None:
                return Waits(waiting, suspension)
            messages.append(message)
            run.turn, run.next = run.turn + 1, "tools"
            run.progress.model_calls += replay is None
            replay = None

    async def _last(self, run: Run, answer: Answer) -> Finished:
        """The answer without calls: the run's end is stored with it, a subagent's goes before."""
        if run.path:
            await self._journal.said_last(run, Message("assistant", answer.text), answer.usage)
            run.progress.model_calls += 1
        return Finished(True, output=answer.text, answer=answer)

    async def _ask(self, run: Run, messages: Sequence[Message], notes: Notes) -> Answer:
        tools = allowed_tools(run.spec, self._catalog.specs(run.tenant))
        request = ModelRequest(
            run.spec.instructions,
            messages,
            [t for t in tools.values() if not t.unavailable],
            notes,
        )
        for layer in self._layers:
            request = await layer.before_model(run, request)
        return await self._model_for(run.spec.model).answer(request)

    def _judge(self, run: Run, answer: Answer, messages: Sequence[Message]) -> list[Call]:
        tools = allowed_tools(run.spec, self._catalog.specs(run.tenant))
        calls = read_calls(answer, run, tools, self._catalog, ids_in(messages))
        for layer in self._layers:
            calls = layer.judge(run, calls)
        return calls

    async def _run_batch(self, run: Run, calls: Sequence[Call]) -> list[Message] | Waits:
        """Every call through the chain, in call order; those that have a result give it again.

        Adjacent `task` calls run side by side. Where one of them waits for people, no further call
        of the batch starts.
        """
        results: list[Message] = []
        for group in _groups(calls):
            if any(not c.exec_state.settled for c in group):
                if self._leave():
                    raise Drained
                if run.progress.pausing:
                    return Waits(())
            outcomes = await _together([self._one(run, call) for call in group])
            waiting = [o for o in outcomes if isinstance(o, Waits)]
            if waiting:
                return Waits(tuple(c for w in waiting for c in w.calls))
            results += [
                _message(call, outcome)
                for call, outcome in zip(group, outcomes, strict=True)
                if isinstance(outcome, ToolResult)
            ]
        return results

    async def _one(self, run: Run, call: Call) -> ToolResult | Waits:
        """One call's result, or the calls of its subagent that wait."""
        if call.ruling is Ruling.BAD and call.result is not None:
            return call.result
        try:
            result = await self._chain(ToolCall(run, call, timeout=3600))
        except AwaitingApproval as waits:
            if call.tool_name != TASK or call in waits.calls:
                raise
            return Waits(waits.calls)
        if result.refused and not call.exec_state.settled:
            await self._journal.gave_up(run, call, ExecState.FAILED, result)
        return result

    async def _execute(self, asked: ToolCall) -> ToolResult:
        """The core of the onion."""
        if asked.call.tool_name == TASK:
            return await self._subagent(asked)
        return await self._executor(asked)

    async def _subagent(self, asked: ToolCall) -> ToolResult:
        """Drive a subagent from where it stands. Raises AwaitingApproval with what waits in it."""
        run, call = asked.run, asked.call
        if call.exec_state.settled and call.result is not None:
            return call.result
        arguments: Any = strict_json.parse(call.arguments)
        found = [s for s in run.spec.subagents if s.name == arguments["subagent"]]
        if not found:
            text = f"There is no subagent {arguments['subagent']}."
            return ToolResult(text, is_error=True, refused=True)
        child = replace(
            run,
            spec=as_agent(found[0], run.spec),
            path=f"{run.path}/" * bool(run.path) + f"{call.key.turn}.{call.key.call_index}",
            subagent_call_id=call.tool_call_id,
            turn=0,
            next="model",
        )
        outcome = await self.go_on(child, await self._journal.entered(child, arguments["prompt"]))
        if isinstance(outcome, Waits):
            raise AwaitingApproval(*outcome.calls)
        if outcome.succeeded:
            state, result = ExecState.SUCCEEDED, ToolResult(outcome.output or "")
        else:
            text = f"The subagent failed: {outcome.message}."
            state, result = ExecState.FAILED, ToolResult(text, is_error=True)
        await self._journal.gave_up(run, call, state, result)
        return result


def _groups(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls in order; `task` calls that stand side by side together."""
    groups: list[list[Call]] = []
    for call in calls:
        if groups and call.tool_name == TASK == groups[-1][-1].tool_name:
            groups[-1].append(call)
        else:
            groups.append([call])
    return groups


async def _together(work: list[Any]) -> list[ToolResult | Waits]:
    """All of it, side by side, each to its end; then the first error, if there was one.

    A sibling of one that failed is not cut off in the middle of a tool.
    """
    if len(work) == 1:
        return [await work[0]]
    outcomes: list[Any] = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def _message(call: Call, result: ToolResult) -> Message:
    return Message(
        "tool",
        result.text,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        is_error=result.is_error,
    )


def _as_asked(answer: Answer, calls: Sequence[Call]) -> tuple[AskedCall, ...]:
    """The model's own arguments, for ever, under the ids in use."""
    return tuple(
        AskedCall(c.tool_call_id, asked.name, asked.arguments_raw)
        for c, asked in zip(calls, answer.tool_calls, strict=True)
    )


def _suspension(run: Run, turn: int, waiting: Sequence[Call]) -> Suspension:
    return Suspension(
        id=ids.suspension_id(run.id, run.gen + 1),
        run_id=run.id,
        tenant_id=run.tenant_id,
        gen=run.gen + 1,
        turn=turn,
        agent=run.agent,
        agent_version=run.agent_version,
        requested_by=run.created_by,
        calls=tuple(sorted(waiting, key=lambda c: (c.key.subagent_path, c.key.call_index))),
    )
