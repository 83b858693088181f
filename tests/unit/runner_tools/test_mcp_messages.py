"""Calls and answers on their way through MCP (case 41)."""

import json
from typing import Any

import pytest
from hango_runner.agent.tools import (
    NeedsInput,
    ToolCallContext,
    ToolNotCalled,
    ToolOutcomeUnknown,
    ToolResult,
)
from hango_runner.tools.mcp_messages import call_params, read_result
from hango_runner.tools.text import MAX_RESULT_BYTES


def context(*inputs: bytes) -> ToolCallContext:
    return ToolCallContext(
        tenant_id="t",
        tenant="demo",
        agent="a",
        run_id="run-1",
        turn=1,
        tool_call_id="call-1",
        idempotency_key="key-1",
        fencing_token="1",
        inputs=inputs,
    )


def sent(arguments: bytes) -> str:
    """The arguments as the library's encoder writes them."""
    return json.dumps(call_params("t", arguments, context())["arguments"])


@pytest.mark.parametrize(
    ("arguments", "on_the_wire"),
    [
        (b'{"n": 9007199254740993}', '{"n": 9007199254740993}'),
        (b'{"n": -123456789012345678901234567890}', '{"n": -123456789012345678901234567890}'),
        (b'{"n": 0.1}', '{"n": 0.1}'),
        (b'{"n": [1.50, 2e3]}', '{"n": [1.5, 2000.0]}'),
        (b'{"n": null, "m": {"k": null}}', '{"n": null, "m": {"k": null}}'),
        (b'{"n": "\\u0000"}', '{"n": "\\u0000"}'),
        ('{"n": "é"}'.encode(), '{"n": "\\u00e9"}'),
    ],
)
def test_what_stays_the_same_is_sent(arguments: bytes, on_the_wire: str) -> None:
    assert sent(arguments) == on_the_wire


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"n": 1e400}',
        b'{"n": 0.1000000000000000000001}',
        b'{"n": 9007199254740993.0}',
        b'{"n": [{"m": 3.141592653589793238462643}]}',
        b'{"n": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"n": 1, "n": 2}',
        b'{"n": NaN}',
        b"{",
    ],
)
def test_what_would_change_is_not_sent(arguments: bytes) -> None:
    with pytest.raises(ToolNotCalled, match="not called"):
        sent(arguments)


def test_what_travels_along() -> None:
    params = call_params("pay", b"{}", context(b'{"ok": true}', b"null"))
    assert params == {
        "name": "pay",
        "arguments": {},
        "_meta": {
            "hango/idempotency-key": "key-1",
            "hango/run-id": "run-1",
            "hango/tool-call-id": "call-1",
            "hango/inputs": [{"ok": True}, None],
        },
    }
    assert "hango/inputs" not in call_params("pay", b"{}", context())["_meta"]


def answer(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(content), **more}


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_texts_are_joined_and_other_content_is_named() -> None:
    result = read_result(
        answer(
            say("a"),
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:/t", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x:/b", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "x:/l", "name": "l"},
            say("b"),
        )
    )
    assert isinstance(result, ToolResult)
    assert result.text.splitlines() == [
        "a",
        "[an image, image/png, left out]",
        "[a sound, audio/wav, left out]",
        "inside",
        "[a file that is not text: x:/b]",
        "[see x:/l]",
        "b",
    ]


def test_structured_content_is_kept_exactly() -> None:
    result = read_result(answer(structuredContent={"n": 9007199254740993}))
    assert result == ToolResult('{"n":9007199254740993}', structured=b'{"n":9007199254740993}')


def test_an_error_is_a_result() -> None:
    assert read_result(answer(say("no"), isError=True)) == ToolResult("no", is_error=True)


def test_text_is_made_fit_for_the_database_and_bounded() -> None:
    result = read_result(answer(say("a\0b" + "x" * 10**6)))
    assert isinstance(result, ToolResult)
    assert result.text.startswith("a\ufffdb")
    assert len(result.text.encode()) < MAX_RESULT_BYTES + 200


def test_a_question_for_a_person() -> None:
    ask = {"payload": {"q": "which?"}, "schema": {"type": "integer"}}
    assert read_result(answer(_meta={"hango/needs-input": ask})) == NeedsInput(
        b'{"q":"which?"}', b'{"type":"integer"}'
    )
    bare = read_result(answer(_meta={"hango/needs-input": {"payload": None}}))
    assert bare == NeedsInput(b"null", None)


def test_a_question_with_a_hostile_schema_is_not_asked() -> None:
    ask = {"payload": 1, "schema": {"pattern": "^(a+)+$"}}
    with pytest.raises(ToolNotCalled, match="schema"):
        read_result(answer(_meta={"hango/needs-input": ask}))


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"content": "text"},
        answer({"type": "unheard of"}),
        answer(_meta={"hango/needs-input": "what?"}),
        answer(_meta={"hango/needs-input": {"schema": {}}}),
        answer(structuredContent={"n": float("inf")}),
    ],
)
def test_an_answer_that_cannot_be_understood_leaves_the_outcome_unknown(
    raw: dict[str, Any],
) -> None:
    with pytest.raises(ToolOutcomeUnknown):
        read_result(raw)
