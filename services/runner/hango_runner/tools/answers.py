"""What tool servers answer, bounded and checked, whatever they speak."""

from __future__ import annotations

from hango_policy.errors import SchemaRefused
from hango_policy.schemas import compile_schema
from hango_policy.strict_json import parse

from hango_runner.agent.tools import NeedsInput, ToolNotCalled, ToolResult
from hango_runner.tools.text import presentable

MAX_STRUCTURED_BYTES = 256 * 1024
"""The longest structured result, as JSON text; a longer one is left out."""


def answer(text: str, structured: bytes | None, *, is_error: bool) -> ToolResult:
    """A result; text that is too long is cut with a marker, and none at all is the structured
    content.
    """
    if not text and structured is not None:
        text = structured.decode("utf-8", "replace")
    if structured is not None and len(structured) > MAX_STRUCTURED_BYTES:
        structured = None
    return ToolResult(presentable(text), is_error=is_error, structured=structured)


def question(payload: bytes, schema: bytes | None) -> NeedsInput:
    """A question to a person, both JSON text; `schema` None where any answer will do.

    Raises JsonRefused for what is no JSON, ToolNotCalled for a schema that nobody's answer could
    be checked by.
    """
    parse(payload, max_bytes=MAX_STRUCTURED_BYTES)
    if schema is None:
        return NeedsInput(payload)
    try:
        compile_schema(parse(schema, max_bytes=MAX_STRUCTURED_BYTES))
    except SchemaRefused as error:
        message = f"The tool asks a person, but the schema of its question {error.reason}."
        raise ToolNotCalled(message) from None
    return NeedsInput(payload, schema)
