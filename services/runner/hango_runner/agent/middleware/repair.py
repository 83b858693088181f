"""Calls of earlier runs that never got a result are answered, so that a provider takes the
conversation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_runner.agent.calls import edited_note
from hango_runner.agent.chain import Middleware
from hango_runner.agent.state import ExecState, Message
from hango_runner.agent.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Outcome, Run

_TEXTS = {
    "approval_expired": "Nobody decided on this call in time. It did not run.",
    "cancelled": "The run was cancelled before this call ran. It did not run.",
}
_UNKNOWN = (
    "The run ended while this call was under way, and its outcome is unknown: it may or may not "
    "have happened."
)
_LEFT = "The run ended before this call ran. It did not run."


class RepairToolCalls(Middleware):
    """Answers calls that truly hang: those of runs that are over.

    A call of the run at hand is never touched: it has a result, or its batch is still open and the
    model is not asked. So no decided call can be answered here.
    """

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """The request with a tool message behind each hanging call, in call order."""
        del run
        return replace(request, messages=list(_repaired(request.messages)))


def _repaired(messages: Sequence[Message]) -> Iterator[Message]:
    answered = {m.tool_call_id for m in messages if m.role == "tool"}
    for message in messages:
        yield message
        if message.ended is None:
            continue
        for call in message.tool_calls:
            if call.id not in answered:
                result = _result(message.ended, message.outcomes.get(call.id))
                yield Message(
                    "tool",
                    result.text,
                    tool_call_id=call.id,
                    tool_name=call.name,
                    is_error=result.is_error,
                    ended=message.ended,
                )


def _result(ended: str, outcome: Outcome | None) -> ToolResult:
    """What is true of the call: its own result where it has one, though its run never told."""
    if outcome is not None and outcome.result is not None:
        note = "" if outcome.edited is None else edited_note(outcome.edited)
        return replace(outcome.result, text=note + outcome.result.text)
    if outcome is not None and outcome.state in (ExecState.STARTED, ExecState.UNKNOWN):
        return ToolResult(_UNKNOWN, is_error=True)
    return ToolResult(_TEXTS.get(ended, _LEFT), is_error=True)
