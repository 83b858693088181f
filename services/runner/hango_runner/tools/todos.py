"""The built-in `write_todos`: a list that lives in the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango_runner.tools.builtin import Builtin, ToolFault, builtin_spec
from hango_runner.tools.text import is_storable

if TYPE_CHECKING:
    from hango_runner.agent.tools import Files

_MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


async def _write_todos(arguments: dict[str, Any], _files: Files) -> str:
    todos = arguments["todos"]
    lines = [f"{_MARKS[todo['status']]} {todo['content']}" for todo in todos]
    text = "\n".join(lines)
    if not is_storable(text):
        message = "The text has a NUL or an unpaired surrogate. Nothing was done."
        raise ToolFault(message)
    return text or "The list is empty."


WRITE_TODOS = Builtin(
    builtin_spec(
        "write_todos",
        "Write down the steps of the work at hand and how far they are. Each call gives the whole "
        "list and replaces the earlier one.",
        {
            "todos": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "minLength": 1, "maxLength": 1000},
                        "status": {"enum": list(_MARKS)},
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        ("todos",),
    ),
    _write_todos,
)
"""Nothing is stored but its result."""
