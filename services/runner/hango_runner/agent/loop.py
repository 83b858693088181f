"""The loop: ask the model, judge its calls, run them, until it is done or must wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from hango_platform import ids

from hango_runner.agent.calls import ids_in, read_calls
from hango_runner.agent.chain import ToolCall, onion
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
from hango_runner.agent.toolset import allowed_tools
from hango_runner.domain.run import FailureReason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hango_runner.agent.chain import Middleware
    from hango_runner.agent.executor import Executor
    from hango_runner.agent.model import Model
    from hango_runner.agent.ports import Catalog, Journal
    from hango_runner.agent.state import Call, Notes, Run
    from hango_runner.agent.tools import ToolResult
    from hango_runner.domain.spec import ScriptedModel


class Drained(Exception):
    """The worker is to stop, and the run is at a point where it can be let go."""


class Loop:
    """Drives one claimed run at a time; holds nothing between two of them.

    `layers` are the onion, outermost first. `leave` says whether the worker is to stop.
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
        self._chain = onion(layers, executor)
        self._model_for = model_for

    async def drive(self, run: Run, leave: Callable[[], bool]) -> Suspension | None:
        """Go on with the run until it ends (None) or waits for people (what to open).

        Raises LeaseLost where the run is not ours any more, Drained where it was let go in between.
        """
        loaded = await self._journal.load(run)
        messages, calls, budget = loaded.messages, loaded.calls, Budget(run, loaded)
        while True:
            if run.next == "tools":
                results = await self._run_batch(run, calls, leave)
                await self._journal.batch_done(run, results)
                run.next = "model"
                messages.extend(results)
            if leave():
                raise Drained
            if over := budget.over():
                await self._journal.ended(run, over)
                return None
            try:
                async with asyncio.timeout(budget.seconds_left()):
                    answer = await self._ask(run, messages, loaded.notes)
            except TimeoutError:
                if (over := budget.over()) is None:
                    raise
                await self._journal.ended(run, over)
                return None
            except ModelFailed as error:
                await self._journal.ended(
                    run, Finished(False, reason=FailureReason.MODEL_ERROR, message=str(error))
                )
                return None
            if not answer.tool_calls:
                await self._journal.ended(run, Finished(True, output=answer.text, answer=answer))
                return None
            calls = self._judge(run, answer, messages)
            budget.use(answer.usage)
            if over := budget.asked_too_often(calls):
                said = Answer(answer.text, usage=answer.usage)
                await self._journal.ended(run, replace(over, answer=said))
                return None
            suspension = _suspension(run, calls)
            message = Message("assistant", answer.text, _as_asked(answer, calls))
            await self._journal.answered(run, message, answer.usage, calls, suspension)
            if suspension is not None:
                return suspension
            messages.append(message)
            run.turn, run.next, run.model_calls = run.turn + 1, "tools", run.model_calls + 1

    async def _ask(self, run: Run, messages: Sequence[Message], notes: Notes) -> Answer:
        tools = allowed_tools(run.spec.tools, self._catalog.specs(run.tenant))
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
        tools = allowed_tools(run.spec.tools, self._catalog.specs(run.tenant))
        calls = read_calls(answer, run.turn, tools, self._catalog, ids_in(messages))
        for layer in self._layers:
            calls = layer.judge(run, calls)
        return calls

    async def _run_batch(
        self, run: Run, calls: Sequence[Call], leave: Callable[[], bool]
    ) -> list[Message]:
        """Every call through the chain, in call order; those that have a result give it again."""
        results = []
        for call in calls:
            if leave() and not call.exec_state.settled:
                raise Drained
            result = call.result if call.ruling is Ruling.BAD else None
            if result is None:
                result = await self._chain(ToolCall(run, call, timeout=3600))
                if result.refused and not call.exec_state.settled:
                    await self._journal.gave_up(run, call, ExecState.FAILED, result)
            results.append(_message(call, result))
        return results


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


def _suspension(run: Run, calls: Sequence[Call]) -> Suspension | None:
    waiting = gated(calls)
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
        calls=waiting,
    )
