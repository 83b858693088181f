"""The tool that hands a task to a subagent. The loop carries it out."""

from __future__ import annotations

from hango_runner.agent.toolset import TASK as NAME
from hango_runner.tools.builtin import builtin_spec

TASK = builtin_spec(
    NAME,
    "Hand a task to a subagent and get its last answer. It sees nothing of this conversation: say "
    "all that it needs. Tasks that stand side by side are worked on at the same time.",
    {
        "subagent": {"type": "string", "minLength": 1, "description": "Which subagent."},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100_000,
            "description": "The task.",
        },
    },
    ("subagent", "prompt"),
)
