"""What all built-ins share: a spec, work on files, faults that the model reads, bounded answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hango_policy.rules import BUILTIN

from hango_runner.agent.tools import Effect, ToolResult, ToolSpec
from hango_runner.tools.text import presentable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango_runner.agent.tools import Files


class ToolFault(Exception):
    """What the model should read as an error result. Nothing was done."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A TransactionalTool: `work` answers with text, or raises ToolFault before any effect.

    The arguments were checked by the spec's schema before.
    """

    spec: ToolSpec
    work: Callable[[dict[str, Any], Files], Awaitable[str]]

    async def run(self, arguments: dict[str, Any], files: Files) -> ToolResult:
        """Do it; a fault becomes an error result."""
        try:
            return ToolResult(presentable(await self.work(arguments, files)))
        except ToolFault as fault:
            return ToolResult(str(fault), is_error=True)


def builtin_spec(
    name: str, description: str, properties: dict[str, Any], required: tuple[str, ...]
) -> ToolSpec:
    """The spec of a built-in that takes these arguments and no other."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, parameters, Effect.TRANSACTIONAL, source=BUILTIN)
