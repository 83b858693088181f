"""Calls of earlier runs that never got a result are answered, so that a provider takes the
conversation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_runner.agent.chain import Middleware
from hango_runner.agent.state import ExecState, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Run

_TEXTS = {
    "approval_expired": "Nobody decided on this call in time. It did not run.",
    "cancelled": "The run was cancelled before this call ran. It did not run.",
    "forked": "Not executed: forked.",
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
                yield Message(
                    "tool",
                    _text(message.ended, message.outcomes.get(call.id)),
                    tool_call_id=call.id,
                    tool_name=call.name,
                    is_error=True,
                    ended=message.ended,
                )


def _text(ended: str, outcome: str | None) -> str:
    if outcome in (ExecState.STARTED, ExecState.UNKNOWN):
        return _UNKNOWN
    return _TEXTS.get(ended, _LEFT)
