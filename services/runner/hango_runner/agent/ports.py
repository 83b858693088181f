"""What the loop needs from outside: a journal that every step is written to, tools, a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from hango_policy.schemas import CompiledSchema

    from hango_runner.agent.state import (
        Call,
        ExecState,
        Finished,
        Loaded,
        Message,
        Run,
        Suspension,
        Usage,
    )
    from hango_runner.agent.tools import (
        Files,
        RemoteTool,
        ToolResult,
        ToolSpec,
        TransactionalTool,
    )


class TransactionalCall(Protocol):
    """A call whose effect and result commit together."""

    @property
    def files(self) -> Files:
        """What the call may read and write."""

    async def finish(self, result: ToolResult) -> None:
        """Store the result; the effect commits with it."""


class Journal(Protocol):
    """Where a run's steps are made durable. Every method raises LeaseLost where the run is no
    longer held.
    """

    async def load(self, run: Run) -> Loaded:
        """What the loop goes on with: the conversation, the open batch, the agent's notes."""

    async def answered(
        self,
        run: Run,
        message: Message,
        usage: Usage,
        calls: Sequence[Call],
        suspension: Suspension | None,
    ) -> None:
        """T1b: the answer and its judged calls; with a suspension T2 in the same transaction."""

    async def started(self, run: Run, call: Call, effect: str) -> None:
        """T7. `call.arguments` are the bytes about to run."""

    async def finished(self, run: Run, call: Call, state: ExecState, result: ToolResult) -> None:
        """T8."""

    async def gave_up(self, run: Run, call: Call, state: ExecState, result: ToolResult) -> None:
        """What became of a call that cannot be started, or that an older epoch had started."""

    def transactional(self, run: Run, call: Call) -> AbstractAsyncContextManager[TransactionalCall]:
        """T7, effect and T8 as one transaction."""

    async def batch_done(self, run: Run, results: Sequence[Message]) -> None:
        """T8b."""

    async def entered(self, run: Run, prompt: str) -> Loaded:
        """A subagent begins, or goes on where it stood; `run` gets its turn and next step."""

    async def said_last(self, run: Run, message: Message, usage: Usage) -> None:
        """A subagent's last answer."""

    async def suspended(self, run: Run, suspension: Suspension) -> None:
        """T2 alone, for calls of subagents."""

    async def ended(self, run: Run, end: Finished) -> None:
        """T9."""


class Catalog(Protocol):
    """The tools that there are now."""

    async def settled(self) -> None:
        """Return when every server has been tried once; within seconds, and then at once."""

    def specs(self, tenant: str) -> Mapping[str, ToolSpec]:
        """What this tenant (by slug) may use, by name; unavailable ones included."""

    def schema(self, name: str) -> CompiledSchema | None:
        """What the arguments are checked by; None for a tool that is not there."""

    def transactional(self, name: str) -> TransactionalTool | None:
        """The built-in of this name whose effect is in the database."""

    def remote(self, name: str) -> tuple[RemoteTool, str, float | None] | None:
        """A tool server, what it calls the tool, and its own time limit (seconds) if it has one."""
