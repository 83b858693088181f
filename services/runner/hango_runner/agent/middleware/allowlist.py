"""A tool that the agent may not use does not run, however the call came here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_runner.agent.chain import Middleware
from hango_runner.agent.tools import ToolResult
from hango_runner.agent.toolset import allowed_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango_runner.agent.chain import ToolCall
    from hango_runner.agent.ports import Catalog


class Allowlist(Middleware):
    """The second lock behind the judging of an answer: it holds after an edit and a restart."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def around_tool(
        self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Refuse a tool that the spec does not name. One that is gone is the executor's to tell."""
        specs = self._catalog.specs(asked.run.tenant)
        name = asked.call.tool_name
        if name in specs and name not in allowed_tools(asked.run.spec, specs):
            text = "There is no tool of this name for you."
            return ToolResult(text, is_error=True, refused=True)
        return await call_next(asked)
