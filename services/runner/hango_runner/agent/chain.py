"""The onion around every tool call, and around every model call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Call, Run
    from hango_runner.agent.tools import ToolResult


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call on its way to its tool. `call.arguments` are the bytes that will run; `timeout` is
    in seconds.
    """

    run: Run
    call: Call
    timeout: float


class AwaitingApproval(BaseException):
    """Calls must wait for people: this one, or those of the subagent that it called.

    Not an Exception: a middleware that wraps or retries the errors of tools must let a suspension
    through (cases.md, 26).
    """

    def __init__(self, *calls: Call) -> None:
        super().__init__(", ".join(str(call.key) for call in calls))
        self.calls = calls


class Middleware:
    """One layer. Every hook does nothing unless it is overridden."""

    def judge(self, run: Run, calls: Sequence[Call]) -> list[Call]:
        """Rule on the calls of an answer before any of them runs; the calls with their rulings."""
        del run
        return list(calls)

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """Change what the model is asked."""
        del run
        return request

    async def around_tool(
        self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Do something before, after or instead of the layers below."""
        return await call_next(asked)


def onion(
    layers: Sequence[Middleware], core: Callable[[ToolCall], Awaitable[ToolResult]]
) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    """The layers around the core, the first one outermost."""

    def wrap(
        layer: Middleware, inner: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> Callable[[ToolCall], Awaitable[ToolResult]]:
        async def call(asked: ToolCall) -> ToolResult:
            return await layer.around_tool(asked, inner)

        return call

    wrapped = core
    for layer in reversed(layers):
        wrapped = wrap(layer, wrapped)
    return wrapped
