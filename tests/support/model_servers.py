"""Local servers that speak the wire protocols of the two providers, streaming as they do.

Requests are checked as the real servers check them: a conversation that a provider would refuse is
answered with 400.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.http_server import serving

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass
class Say:
    """An answer. Text and arguments are sent in these pieces; a call is (id, name, pieces)."""

    text: Sequence[str] = ()
    calls: Sequence[tuple[str | None, str, Sequence[str]]] = ()
    refusal: str = ""
    finish: str | None = "stop"
    pause: float = 0.0
    """Seconds before the first word."""
    rhythm: float = 0.0
    """Seconds between two pieces of text."""
    cut: bool = False
    """End the stream before it is whole."""
    tokens: tuple[int, int] = (11, 7)


@dataclass
class Fail:
    """An answer that is a status."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    code: str = ""


Answer = Say | Fail
Script = Callable[[dict[str, Any]], Answer | Awaitable[Answer]]


class ModelServer:
    """What it answers is up to the test; what it was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.problems: list[str] = []
        self.script: list[Answer] = []
        self.address = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._openai, methods=["POST"]),
                Route("/v1/messages", self._anthropic, methods=["POST"]),
            ]
        )

    async def _openai(self, request: Request) -> Response:
        return await self._serve(request, openai_problem, openai_events, openai_error)

    async def _anthropic(self, request: Request) -> Response:
        return await self._serve(request, anthropic_problem, anthropic_events, anthropic_error)

    async def _serve(self, request: Request, problem: Any, events: Any, error: Any) -> Response:
        asked = json.loads(await request.body())
        self.headers.append(dict(request.headers))
        self.asked.append(asked)
        if wrong := problem(asked):
            self.problems.append(wrong)
            return JSONResponse(error(400, wrong), 400)
        answer = self.script.pop(0) if self.script else Say(["done"])
        if isinstance(answer, Fail):
            body = error(answer.status, answer.code or "secret words of the prompt")
            return JSONResponse(body, answer.status, answer.headers)
        await asyncio.sleep(answer.pause)
        return StreamingResponse(events(answer), media_type="text/event-stream")


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Running, at `address`."""
    made = ModelServer()
    async with serving(made.app()) as made.address:
        yield made
        assert made.problems == []


def _line(data: Any, event: str = "") -> str:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


async def openai_events(say: Say) -> AsyncIterator[str]:
    """Chat Completions chunks."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _line({**base, "choices": [choice]})

    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield chunk({"role": "assistant", "content": ""})
    for piece in say.text:
        yield chunk({"content": piece})
        await asyncio.sleep(say.rhythm)
    if say.refusal:
        yield chunk({"refusal": say.refusal})
    for index, (call_id, name, pieces) in enumerate(say.calls):
        start: dict[str, Any] = {"index": index, "type": "function"}
        if call_id is not None:
            start["id"] = call_id
        yield chunk({"tool_calls": [{**start, "function": {"name": name, "arguments": ""}}]})
        for piece in pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if say.cut:
        return
    yield chunk({}, "tool_calls" if say.calls and say.finish == "stop" else say.finish)
    prompt, completion = say.tokens
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    yield _line({**base, "choices": [], "usage": usage})
    yield _line("[DONE]")


async def anthropic_events(say: Say) -> AsyncIterator[str]:
    """Messages events."""

    def line(kind: str, **data: Any) -> str:
        return _line({"type": kind, **data}, kind)

    def block(index: int, content: dict[str, Any]) -> str:
        return line("content_block_start", index=index, content_block=content)

    def delta(index: int, **data: Any) -> str:
        return line("content_block_delta", index=index, delta=data)

    prompt, completion = say.tokens
    message: dict[str, Any] = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": 1},
    }  # fmt: skip
    yield line("message_start", message=message)
    yield line("ping")
    index = 0
    if say.text:
        yield block(index, {"type": "text", "text": ""})
        for piece in say.text:
            yield delta(index, type="text_delta", text=piece)
            await asyncio.sleep(say.rhythm)
        yield line("content_block_stop", index=index)
        index += 1
    for call_id, name, pieces in say.calls:
        yield block(index, {"type": "tool_use", "id": call_id or "", "name": name, "input": {}})
        for piece in pieces:
            yield delta(index, type="input_json_delta", partial_json=piece)
        yield line("content_block_stop", index=index)
        index += 1
    if say.cut:
        return
    reasons = {"stop": "tool_use" if say.calls else "end_turn", "length": "max_tokens"}
    reason = "refusal" if say.refusal else reasons.get(say.finish or "", say.finish)
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield line("message_delta", delta=ended, usage={"output_tokens": completion})
    yield line("message_stop")


def openai_error(status: int, words: str) -> dict[str, Any]:
    """A body of an error."""
    return {"error": {"message": words, "type": "x", "code": words if status == 429 else None}}


def anthropic_error(status: int, words: str) -> dict[str, Any]:
    """A body of an error."""
    kinds = {429: "rate_limit_error", 529: "overloaded_error", 400: "invalid_request_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": words}}


def openai_problem(asked: dict[str, Any]) -> str:
    """Why the real server would refuse it; empty where it would not."""
    if not asked.get("stream"):
        return "not streaming"
    open_calls: list[str] = []
    for message in asked["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "a result without its call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return "a call without its result"
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            if not calls and not message.get("content"):
                return "an empty assistant message"
            open_calls = [call["id"] for call in calls]
            if len(set(open_calls)) != len(open_calls) or any(len(c) > 40 for c in open_calls):
                return "ids of calls"
        elif message["content"] in ("", []):
            return "an empty message"
    return "a call without its result" if open_calls else ""


def anthropic_problem(asked: dict[str, Any]) -> str:
    """Why the real server would refuse it; empty where it would not."""
    if not asked.get("stream"):
        return "not streaming"
    if not isinstance(asked.get("max_tokens"), int):
        return "max_tokens"
    open_calls: list[str] = []
    before = "assistant"
    for message in asked["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == before == "assistant":
            return "two assistant messages in a row"
        before = message["role"]
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            return "an empty text"
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if results != open_calls:
            return "results that are not those of the calls before"
        open_calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if any(not all(c.isalnum() or c in "_-" for c in i) or not i for i in open_calls):
            return "ids of calls"
        if any(not isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use"):
            return "input"
    return "a call without its result" if open_calls else ""
