"""No call outlives the spec's `tool_timeout`. A person's time never counts: nothing runs while a
run is paused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_runner.agent.chain import Middleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hango_runner.agent.chain import ToolCall
    from hango_runner.agent.tools import ToolResult


class Timeout(Middleware):
    """Sets the bound; the executor keeps it, since only it knows what a late answer means."""

    async def around_tool(
        self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Hand the call on with the spec's time limit."""
        limit = asked.run.spec.limits.tool_timeout.total_seconds()
        return await call_next(replace(asked, timeout=min(asked.timeout, limit)))
