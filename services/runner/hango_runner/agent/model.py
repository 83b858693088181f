"""Models: what they are asked, what they answer, and the one that plays a script."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hango_policy import strict_json

from hango_runner.agent.state import Answer, AskedCall
from hango_runner.domain.spec import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hango_runner.agent.state import Message, Notes
    from hango_runner.agent.tools import ToolSpec


class ModelFailed(Exception):
    """The model did not answer, however often it was asked: the run fails with `model_error`."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model is asked: its instructions, the conversation so far, the tools it may call.

    `notes` are the agent's own, for the layer that shows them; `tell` hears the text of the answer
    as it grows, piece by piece, with the number of the attempt that it belongs to.
    """

    instructions: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    notes: Notes | None = None
    tell: Callable[[str, int], None] | None = None


class Model(Protocol):
    """Something that goes on with a conversation."""

    async def answer(self, request: ModelRequest) -> Answer:
        """The next assistant message. Raises ModelFailed."""


class Scripted:
    """Turn *n* answers the call made when the conversation holds *n* assistant messages; past the
    end, nothing.
    """

    def __init__(self, script: ScriptedModel) -> None:
        self._turns = script.turns

    async def answer(self, request: ModelRequest) -> Answer:
        """What the script says now. Raises ModelFailed where it says `error`."""
        place = sum(m.role == "assistant" for m in request.messages)
        if place >= len(self._turns):
            return Answer("")
        turn = self._turns[place]
        if turn.delay_ms:
            await asyncio.sleep(turn.delay_ms / 1000)
        if turn.error is not None:
            msg = f"the model answered with an error: {turn.error}"
            raise ModelFailed(msg)
        calls = tuple(
            AskedCall(
                c.id,
                c.name,
                c.arguments_raw
                if c.arguments_raw is not None
                else strict_json.dumps(c.arguments or {}).decode(),
            )
            for c in turn.tool_calls
        )
        return Answer(turn.text, calls)


def model_for(name: str | ScriptedModel) -> Model:
    """The model that a spec names. Raises ModelFailed where this runner has none of that name."""
    if isinstance(name, ScriptedModel):
        return Scripted(name)
    msg = f"no provider for the model {name} is set up here"
    raise ModelFailed(msg)
