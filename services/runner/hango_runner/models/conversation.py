"""Our messages, which are the durable ones, to those of pydantic-ai and back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    ImageUrl,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from hango_runner.agent.state import Answer, AskedCall, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage, ModelRequestPart, UserContent

    from hango_runner.agent.state import Message

# What every provider takes as the id of a call; ours may be longer, or hold a slash.
_PORTABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
# pydantic-ai's own ids for calls that the model gave none: minting is ours (protocol, section 4).
_NOTHING = "(nothing)"  # providers refuse a message of the user without a word
_INVENTED = "pyd_ai_"


class RefusedByModel(Exception):
    """The provider's filter stopped the answer, and nothing of it is left to show."""


def to_provider(messages: Sequence[Message], *, flag_errors: bool) -> list[ModelMessage]:
    """The conversation as the library takes it.

    With `flag_errors`, results that are errors are marked as such, for a protocol that has a mark;
    elsewhere the library would wrap their text, which speaks for itself.
    """
    ids = _Ids()
    found: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in messages:
        if message.role != "assistant":
            waiting.append(_request_part(message, ids, flag_errors))
            continue
        if waiting:
            found.append(ModelRequest(parts=waiting))
            waiting = []
        if parts := _response_parts(message, ids):
            found.append(ModelResponse(parts=parts))
    if waiting:
        found.append(ModelRequest(parts=waiting))
    return found


def from_provider(response: ModelResponse) -> Answer:
    """What the model said. Arguments are the text that it wrote. Raises RefusedByModel."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = tuple(
        AskedCall(_given_id(part.tool_call_id), part.tool_name, _arguments(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    if not text and not calls and response.finish_reason == "content_filter":
        text = _refusal(response.provider_details or {})
    usage = Usage(response.usage.input_tokens, response.usage.output_tokens)
    return Answer(text, calls, usage)


class _Ids:
    """Ids that every provider takes, the same for a call and its result."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, call_id: str) -> str:
        if call_id not in self._given:
            portable, n = call_id, 0
            while not _PORTABLE_ID.fullmatch(portable) or portable in self._used:
                n += 1
                portable = f"call_{len(self._given)}_{n}"
            self._given[call_id] = portable
            self._used.add(portable)
        return self._given[call_id]


def _request_part(message: Message, ids: _Ids, flag_errors: bool) -> ModelRequestPart:
    match message.role:
        case "tool":
            return ToolReturnPart(
                tool_name=message.tool_name or "",
                content=_plain(message.content),
                tool_call_id=ids.of(message.tool_call_id or ""),
                outcome="failed" if message.is_error and flag_errors else "success",
            )
        case "system":
            return SystemPromptPart(_plain(message.content))
        case _:
            return UserPromptPart(_user_content(message.content))


def _response_parts(message: Message, ids: _Ids) -> list[Any]:
    text = _plain(message.content)
    # An empty text is refused by some providers, and says nothing to the others.
    parts: list[Any] = [TextPart(text)] if text.strip() else []
    return parts + [
        ToolCallPart(call.name, call.arguments_raw, ids.of(call.id)) for call in message.tool_calls
    ]


def _user_content(content: Any) -> str | list[UserContent]:
    if not isinstance(content, list):
        text = _plain(content)
        return text if text.strip() else _NOTHING
    parts = [_user_part(part) for part in content]
    return [part for part in parts if not isinstance(part, str) or part.strip()] or _NOTHING


def _user_part(part: Any) -> UserContent:
    """Texts and images by URL as such; what is not known, as the JSON that it is."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url)}} | {
            "type": "image",
            "url": str(url),
        } if url.startswith("https://"):
            return ImageUrl(url)
        case _:
            return json.dumps(part, ensure_ascii=False)


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _given_id(call_id: str) -> str:
    return "" if call_id.startswith(_INVENTED) else call_id


def _arguments(args: object) -> str:
    """The exact text. A model that wrote nothing at all asks for a call without arguments."""
    if isinstance(args, str):
        return args or "{}"
    return "{}" if args is None else json.dumps(args, ensure_ascii=False)


def _refusal(details: dict[str, Any]) -> str:
    said = details.get("refusal")
    if not isinstance(said, str) or not said:
        message = "the model refused to answer"
        raise RefusedByModel(message)
    return said
