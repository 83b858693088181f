"""The innermost layer: starts a tool only with a row that says so, and never twice without being
told that it may.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from hango_platform import faults, ids
from hango_policy import strict_json

from hango_runner.agent.calls import arguments_fault
from hango_runner.agent.state import ExecState, Ruling
from hango_runner.agent.tools import (
    Effect,
    NeedsInput,
    ToolCallContext,
    ToolNotCalled,
    ToolOutcomeUnknown,
    ToolResult,
)

if TYPE_CHECKING:
    from hango_runner.agent.chain import ToolCall
    from hango_runner.agent.ports import Catalog, Journal
    from hango_runner.agent.state import Call
    from hango_runner.agent.tools import TransactionalTool

log = logging.getLogger(__name__)

OUTCOME_UNKNOWN = (
    "The outcome of this call is unknown: it was started, and no answer came back. It may or may "
    "not have happened. It was not repeated. Find out before you try again."
)
_GONE = "There is no tool of this name any more."
_REPEATS = 3
_REPEATABLE = (Effect.READ, Effect.KEYED)


class UndecidedCall(AssertionError):
    """A call without a ruling or a decision that lets it run came to the executor."""


class Executor:
    """Runs calls, one row of the journal each (protocol, sections 3 and 5).

    A call that has a result gives it again; one that an older epoch had started is run again only
    where its effect allows that.
    """

    def __init__(self, journal: Journal, catalog: Catalog) -> None:
        self._journal = journal
        self._catalog = catalog

    async def __call__(self, asked: ToolCall) -> ToolResult:
        """The tool's result, or the error result that stands for it."""
        call = asked.call
        if call.exec_state.settled:
            return call.result or ToolResult(OUTCOME_UNKNOWN, is_error=True)
        _refuse_undecided(call)
        if call.exec_state is ExecState.STARTED and call.effect == Effect.ONCE:
            return await self._give_up(asked, ExecState.UNKNOWN, OUTCOME_UNKNOWN)
        fault = arguments_fault(call.tool_name, call.arguments, self._catalog)
        if fault is not None:
            return await self._give_up(asked, *_not_called(call.exec_state, fault))
        builtin = self._catalog.transactional(call.tool_name)
        if builtin is not None:
            return await self._transact(asked, builtin)
        return await self._call_remote(asked)

    async def _transact(self, asked: ToolCall, tool: TransactionalTool) -> ToolResult:
        arguments: Any = strict_json.parse(asked.call.arguments)
        async with self._journal.transactional(asked.run, asked.call) as transaction:
            result = await tool.run(arguments, transaction.files)
            await transaction.finish(result)
        return result

    async def _call_remote(self, asked: ToolCall) -> ToolResult:
        run, call = asked.run, asked.call
        found = self._catalog.remote(call.tool_name)
        spec = self._catalog.specs(run.tenant).get(call.tool_name)
        if found is None or spec is None:
            return await self._give_up(asked, *_not_called(call.exec_state, _GONE))
        await self._journal.started(run, call, spec.effect)
        if faults.ACTIVE:
            await faults.reach("after_journal_commit")
        state, result = await self._attempt(asked, spec.effect)
        await self._journal.finished(run, call, state, result)
        return result

    async def _attempt(self, asked: ToolCall, effect: Effect) -> tuple[ExecState, ToolResult]:
        """Call the tool; where its outcome stays unknown, again if the effect allows it."""
        found = self._catalog.remote(asked.call.tool_name)
        if found is None:
            state, text = _not_called(asked.call.exec_state, _GONE)
            return state, ToolResult(text, is_error=True)
        tool, name, limit = found
        before = asked.call.exec_state
        for attempt in range(_REPEATS):
            try:
                async with asyncio.timeout(min(asked.timeout, limit or asked.timeout)):
                    result = await tool.call(name, asked.call.arguments, _context(asked))
                    if faults.ACTIVE:
                        await faults.reach("after_effect")
            except ToolNotCalled as error:
                state, text = _not_called(before, str(error))
                return state, ToolResult(text, is_error=True)
            except (ToolOutcomeUnknown, TimeoutError) as error:
                log.warning(
                    "tool outcome unknown",
                    extra={
                        "run_id": asked.run.id,
                        "tool": asked.call.tool_name,
                        "tool_call_id": asked.call.tool_call_id,
                        "attempt": attempt + 1,
                        "error": type(error).__name__,
                    },
                )
                if effect not in _REPEATABLE:
                    break
                before = ExecState.STARTED
            else:
                if isinstance(result, NeedsInput):
                    text = "The tool asks a person something, which it may not do here."
                    return ExecState.FAILED, ToolResult(text, is_error=True)
                return ExecState.FAILED if result.is_error else ExecState.SUCCEEDED, result
        return ExecState.UNKNOWN, ToolResult(OUTCOME_UNKNOWN, is_error=True)

    async def _give_up(self, asked: ToolCall, state: ExecState, text: str) -> ToolResult:
        result = ToolResult(text, is_error=True)
        await self._journal.gave_up(asked.run, asked.call, state, result)
        return result


def _context(asked: ToolCall) -> ToolCallContext:
    run, call = asked.run, asked.call
    return ToolCallContext(
        tenant_id=run.tenant_id,
        tenant=run.tenant,
        agent=run.agent,
        run_id=run.id,
        turn=call.key.turn,
        tool_call_id=call.tool_call_id,
        idempotency_key=ids.derived_id(run.id, str(call.key)),
        fencing_token=str(run.epoch),
    )


def _not_called(before: ExecState, why: str) -> tuple[ExecState, str]:
    """What is true of a call that was not made now: nothing happened, unless an attempt before it
    may have done it.
    """
    if before is ExecState.STARTED:
        return ExecState.UNKNOWN, OUTCOME_UNKNOWN
    return ExecState.FAILED, why


def _refuse_undecided(call: Call) -> None:
    decided = call.decision is not None and call.decision.kind in ("approve", "edit")
    if call.ruling is Ruling.FREE or (call.ruling is Ruling.GATED and decided):
        return
    raise UndecidedCall(str(call.key))
