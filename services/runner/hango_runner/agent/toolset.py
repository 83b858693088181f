"""Which tools an agent may use: names and globs of its spec against what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_policy.rules import BUILTIN, matches_glob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hango_runner.agent.tools import ToolSpec


def names_tool(patterns: Sequence[str] | None, spec: ToolSpec) -> bool:
    """Whether a spec's `tools` (None: the built-ins) name this tool."""
    if patterns is None:
        return spec.source == BUILTIN
    return any(matches_glob(pattern, spec.name) for pattern in patterns)


def allowed_tools(
    patterns: Sequence[str] | None, specs: Mapping[str, ToolSpec]
) -> dict[str, ToolSpec]:
    """The tools that a spec's `tools` name, by name; unavailable ones included."""
    return {name: spec for name, spec in specs.items() if names_tool(patterns, spec)}
