"""The built-in `ask_human`; the loop turns a call of it into a question."""

from __future__ import annotations

from hango_runner.tools.builtin import builtin_spec

ASK_HUMAN = builtin_spec(
    "ask_human",
    "Ask a person a question and wait for the answer. Give a JSON Schema where the answer must "
    "have a certain form.",
    {
        "question": {"type": "string", "minLength": 1, "maxLength": 16_000},
        "schema": {"type": "object", "description": "JSON Schema of the answer; text if left out."},
    },
    ("question",),
)
"""Its spec alone: there is nothing to run."""
