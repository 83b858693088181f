"""Which tools an agent may use: names and globs of its spec against what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_policy.rules import BUILTIN, matches_glob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hango_runner.agent.tools import ToolSpec
    from hango_runner.domain.spec import AgentSpec

TASK = "task"
"""The tool that hands a task to a subagent; carried out by the loop."""


def names_tool(patterns: Sequence[str] | None, spec: ToolSpec) -> bool:
    """Whether a spec's `tools` (None: the built-ins) name this tool."""
    if patterns is None:
        return spec.source == BUILTIN
    return any(matches_glob(pattern, spec.name) for pattern in patterns)


def allowed_tools(agent: AgentSpec, specs: Mapping[str, ToolSpec]) -> dict[str, ToolSpec]:
    """The tools of an agent, by name; unavailable ones included.

    Whoever has subagents has `task`, and nobody else.
    """
    found = {n: s for n, s in specs.items() if n != TASK and names_tool(agent.tools, s)}
    if agent.subagents and TASK in specs:
        found[TASK] = _with_subagents(specs[TASK], agent)
    return found


def _with_subagents(spec: ToolSpec, agent: AgentSpec) -> ToolSpec:
    listed = "\n".join(f"- {s.name}: {s.description}" for s in agent.subagents)
    return replace(spec, description=f"{spec.description}\nThe subagents:\n{listed}")
