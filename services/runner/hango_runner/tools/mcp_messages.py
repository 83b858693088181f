"""Calls and answers on their way through MCP, which re-encodes JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hango_policy import strict_json
from hango_policy.errors import JsonRefused
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from hango_runner.agent.tools import ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools.answers import answer, question
from hango_runner.tools.text import is_unicode, texts_in

if TYPE_CHECKING:
    from hango_policy.strict_json import JsonValue
    from mcp_types import ContentBlock

    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult

NEEDS_INPUT = "hango/needs-input"
"""`_meta` key of a result that asks a person: `{"payload": any JSON, "schema": object?}`."""


def call_params(name: str, arguments: bytes, context: ToolCallContext) -> dict[str, Any]:
    """The `params` of `tools/call`.

    Raises ToolNotCalled where JSON that is re-encoded would not say the same any more.
    """
    meta: dict[str, Any] = {
        "hango/idempotency-key": context.idempotency_key,
        "hango/run-id": context.run_id,
        "hango/tool-call-id": context.tool_call_id,
    }
    if context.inputs:
        meta["hango/inputs"] = [_encodable(given, "an answer") for given in context.inputs]
    return {"name": name, "arguments": _encodable(arguments, "the arguments"), "_meta": meta}


def read_result(raw: dict[str, Any]) -> ToolResult | NeedsInput:
    """What the server answered.

    Raises ToolOutcomeUnknown for an answer that cannot be understood, ToolNotCalled for a
    question that cannot be asked.
    """
    try:
        result = CallToolResult.model_validate(raw, by_name=False)
        asked = (result.meta or {}).get(NEEDS_INPUT)
        if asked is not None:
            return _question(asked)
        content = result.structured_content
        structured = None if content is None else strict_json.dumps(content)
    except (ValidationError, JsonRefused):
        message = "the server's answer is not well-formed"
        raise ToolOutcomeUnknown(message) from None
    text = "\n".join(_text(block) for block in result.content)
    return answer(text, structured, is_error=result.is_error)


def _encodable(raw: bytes, what: str) -> Any:
    """The value of a JSON text, of types that the library writes as they are."""
    try:
        value = strict_json.parse(raw)
    except JsonRefused as error:
        message = f"The tool was not called: {what} {error.reason}."
        raise ToolNotCalled(message) from None
    if not strict_json.exact_as_double(value):
        message = (
            f"The tool was not called: {what} have a number that this tool's protocol cannot carry "
            "exactly. Use fewer digits, or text."
        )
        raise ToolNotCalled(message)
    plain = _plain(value)
    if not all(map(is_unicode, texts_in(plain))):
        message = f"The tool was not called: {what} have text that is not Unicode."
        raise ToolNotCalled(message)
    return plain


def _plain(value: JsonValue) -> Any:
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def _question(asked: Any) -> NeedsInput:
    if not isinstance(asked, dict) or "payload" not in asked:
        message = "the server's question is not well-formed"
        raise ToolOutcomeUnknown(message)
    schema = asked.get("schema")
    return question(
        strict_json.dumps(asked["payload"]), None if schema is None else strict_json.dumps(schema)
    )


def _text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case EmbeddedResource(resource=resource):
            return f"[a file that is not text: {resource.uri}]"
        case ResourceLink(uri=uri):
            return f"[see {uri}]"
        case ImageContent(mime_type=kind):
            return f"[an image, {kind}, left out]"
        case AudioContent(mime_type=kind):
            return f"[a sound, {kind}, left out]"
