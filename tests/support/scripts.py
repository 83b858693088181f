"""Agents that play a script, and what their models were asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango_platform import ids
from hango_runner.agent.model import model_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hango_runner.agent.model import Model, ModelRequest
    from hango_runner.agent.state import Answer, Message
    from hango_runner.domain.spec import ScriptedModel

FIRE = "count__fire"
GATED = {FIRE: True}


def call(call_id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of a script."""
    return {"id": call_id, "name": tool, "arguments": arguments}


def fire(call_id: str, item: str, **more: Any) -> dict[str, Any]:
    """A call of the counting server's tool that must never be repeated."""
    return call(call_id, FIRE, item=item, **more)


def turn(*calls: Mapping[str, Any], text: str = "", **more: Any) -> dict[str, Any]:
    """An answer of the model."""
    return {"text": text, "tool_calls": list(calls), **more}


def agent(*turns: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A spec with a name of its own, whose model plays these turns and may use every tool."""
    return {
        "name": f"a-{ids.new_id()}",
        "model": {"provider": "scripted", "turns": [*turns, {"text": "done"}]},
        "tools": ["*"],
        **more,
    }


class Recorder:
    """Stands for `model_for`: the models it makes are real, and all that they are asked is kept."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def __call__(self, name: str | ScriptedModel) -> Model:
        return _Recorded(model_for(name), self.requests)

    def about(self, text: str) -> list[list[Message]]:
        """The conversations in which a user said this, as each model call saw them."""
        return [
            list(r.messages)
            for r in self.requests
            if any(m.role == "user" and m.content == text for m in r.messages)
        ]


class _Recorded:
    def __init__(self, model: Model, requests: list[ModelRequest]) -> None:
        self._model, self._requests = model, requests

    async def answer(self, request: ModelRequest) -> Answer:
        self._requests.append(request)
        return await self._model.answer(request)


def assert_valid(messages: Sequence[Message]) -> None:
    """What every provider demands: each call has an id of its own, and its results follow at once,
    in order.
    """
    seen: set[str] = set()
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role != "tool", "a result without its call"
        asked = [c.id for c in message.tool_calls]
        assert len(set(asked)) == len(asked)
        assert not seen & set(asked)
        seen |= set(asked)
        answers, rest = rest[: len(asked)], rest[len(asked) :]
        assert [(m.role, m.tool_call_id) for m in answers] == [("tool", i) for i in asked]
