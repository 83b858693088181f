"""The providers' real client libraries against local servers that speak their protocols."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from hango_runner.agent.model import Model, ModelFailed, ModelRequest
from hango_runner.agent.state import AskedCall, Message, Usage
from hango_runner.agent.tools import Effect, ToolSpec
from hango_runner.models import asking
from hango_runner.models.asking import Models
from hango_runner.models.endpoints import Endpoint, Protocol

from tests.support.model_servers import Fail, ModelServer, Say, model_server

TOOL = ToolSpec("pay", "Pays.", {"type": "object", "properties": {}}, Effect.ONCE)
HELLO = [Message("user", "Hello")]

Asking = tuple[ModelServer, Model]


@pytest.fixture(params=list(Protocol))
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


@pytest.fixture
async def asking_of(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asking]:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.001)
    async with model_server() as server:
        base = f"http://{server.address}" + ("/v1" if protocol is Protocol.OPENAI else "")
        local = Endpoint("local", protocol, base, "KEY", ("m",), timeout=2.0)
        models = Models({"local": local}, {"KEY": "s3cret"}.get, _none)
        yield server, models("local:m")
        await models.close()


def _none(name: object) -> Model:
    msg = f"no provider for the model {name}"
    raise ModelFailed(msg)


def request(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest("Be brief.", list(messages) or HELLO, [TOOL], **more)


async def test_a_text_grows_and_is_counted(asking_of: Asking, protocol: Protocol) -> None:
    server, model = asking_of
    server.script = [Say(["Good ", "day", " — ✓"], tokens=(101, 23))]
    heard: list[tuple[str, int]] = []
    answer = await model.answer(request(tell=lambda text, attempt: heard.append((text, attempt))))
    assert (answer.text, answer.tool_calls) == ("Good day — ✓", ())
    assert answer.usage == Usage(101, 23)
    assert "".join(text for text, _ in heard) == answer.text
    assert len(heard) == 3
    assert {attempt for _, attempt in heard} == {1}
    (asked,), (headers,) = server.asked, server.headers
    assert "s3cret" in (headers.get("authorization", "") + headers.get("x-api-key", ""))
    assert asked["model"] == "m"
    if protocol is Protocol.OPENAI:
        assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
        assert asked["messages"][1] == {"role": "user", "content": "Hello"}
        assert asked["tools"][0]["function"]["name"] == "pay"
    else:
        assert "Be brief." in json.dumps(asked["system"])
        assert asked["tools"][0]["name"] == "pay"


ODD_ARGUMENTS = [
    '{ "amount":9007199254740993,"x" :0.12345678901234567890, "e":1e400}',
    '{"a":1,"a":2}',
    '{"s":"\\u0000\\ud800 \\/"}',
    '{"never": "closed',
    "[1]",
    "nonsense",
    '{\n  "spaced" : true\n}',
]


@pytest.mark.parametrize("text", ODD_ARGUMENTS)
async def test_arguments_are_kept_byte_for_byte(asking_of: Asking, text: str) -> None:
    server, model = asking_of
    pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
    server.script = [Say(calls=[("c1", "pay", pieces)])]
    answer = await model.answer(request())
    assert answer.tool_calls == (AskedCall("c1", "pay", text),)


async def test_parallel_calls_and_odd_ids(asking_of: Asking, protocol: Protocol) -> None:
    server, model = asking_of
    no_id = None if protocol is Protocol.OPENAI else ""
    server.script = [
        Say(
            ["I pay ", "twice."],
            [("c1", "pay", ['{"n":', "1}"]), (no_id, "pay", ['{"n":2}']), ("a:b/c", "pay", [])],
        )
    ]
    answer = await model.answer(request())
    assert answer.text == "I pay twice."
    assert [(c.id, c.name, c.arguments_raw) for c in answer.tool_calls] == [
        ("c1", "pay", '{"n":1}'),
        ("", "pay", '{"n":2}'),
        ("a:b/c", "pay", "{}"),
    ]


CONVERSATION = [
    Message("user", "Pay both"),
    Message(
        "assistant",
        "",
        (
            AskedCall("call_1/0.2_1", "pay", '{ "n":9007199254740993, "f":0.10 }'),
            AskedCall("x" * 200, "pay", '{"broken": '),
            AskedCall("plain", "pay", "{}"),
        ),
    ),
    Message("tool", "", tool_call_id="call_1/0.2_1", tool_name="pay"),
    Message("tool", "It is no JSON.", tool_call_id="x" * 200, tool_name="pay", is_error=True),
    Message("tool", "paid", tool_call_id="plain", tool_name="pay"),
    Message("assistant", ""),
    Message("user", ""),
    Message("user", [{"type": "text", "text": "and"}, {"type": "note", "n": 1}]),
    Message("assistant", "Fine."),
    Message("user", "Thanks"),
]


async def test_a_conversation_as_the_provider_wants_it(
    asking_of: Asking, protocol: Protocol
) -> None:
    """Empty texts, ids that providers refuse, results that are errors, ill-formed arguments."""
    server, model = asking_of
    assert (await model.answer(request(*CONVERSATION))).text == "done"
    assert server.problems == []
    (asked,) = server.asked
    if protocol is Protocol.OPENAI:
        told = asked["messages"][1:]
        calls = told[1]["tool_calls"]
        # A model reads its own call as it wrote it, digit by digit.
        assert calls[0]["function"]["arguments"] == '{ "n":9007199254740993, "f":0.10 }'
        assert json.loads(calls[1]["function"]["arguments"]) == {"INVALID_JSON": '{"broken": '}
        assert told[3]["content"] == "It is no JSON."
    else:
        told = asked["messages"]
        calls = [b for b in told[1]["content"] if b["type"] == "tool_use"]
        assert calls[0]["input"] == {"n": 9007199254740993, "f": 0.1}
        results = [b for b in told[2]["content"] if b["type"] == "tool_result"]
        assert [bool(b["is_error"]) for b in results] == [False, True, False]
    assert len({c["id"] for c in calls}) == 3
    assert calls[2]["id"] == "plain"


async def test_a_thousand_messages(asking_of: Asking) -> None:
    _, model = asking_of
    turns = [
        message
        for n in range(250)
        for message in (
            Message("user", f"Pay {n}"),
            Message("assistant", "", (AskedCall(f"c{n}", "pay", "{}"),)),
            Message("tool", "paid", tool_call_id=f"c{n}", tool_name="pay"),
            Message("assistant", "Paid."),
        )
    ]
    assert (await model.answer(request(*turns, Message("user", "x")))).text == "done"


async def test_a_refusal_is_what_the_model_said(asking_of: Asking, protocol: Protocol) -> None:
    server, model = asking_of
    server.script = [Say(refusal="I will not.")]
    if protocol is Protocol.OPENAI:
        assert (await model.answer(request())).text == "I will not."
    else:
        with pytest.raises(ModelFailed, match="refused to answer"):
            await model.answer(request())
    assert len(server.asked) == 1


async def test_an_empty_answer_is_one(asking_of: Asking) -> None:
    server, model = asking_of
    server.script = [Say()]
    answer = await model.answer(request())
    assert (answer.text, answer.tool_calls) == ("", ())


async def test_an_answer_that_was_too_long_is_kept(asking_of: Asking) -> None:
    server, model = asking_of
    server.script = [Say(["half"], finish="length")]
    assert (await model.answer(request())).text == "half"


@pytest.mark.parametrize(
    "trouble",
    [
        Fail(429),
        Fail(500),
        Fail(502),
        Fail(503),
        Fail(529),
        Fail(408),
        Say(["half an ans"], cut=True),
        Say(calls=[("c1", "pay", ['{"n":'])], cut=True),
        Say(["late"], pause=3.0),
    ],
    ids=str,
)
async def test_what_passes_is_waited_for(asking_of: Asking, trouble: Any) -> None:
    server, model = asking_of
    server.script = [trouble, Say(["at last"])]
    heard: list[tuple[str, int]] = []
    answer = await model.answer(request(tell=lambda text, attempt: heard.append((text, attempt))))
    assert answer.text == "at last"
    assert len(server.asked) == 2
    assert "".join(text for text, attempt in heard if attempt == 2) == "at last"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_does_not_pass_is_not(asking_of: Asking, status: int) -> None:
    server, model = asking_of
    server.script = [Fail(status)]
    with pytest.raises(ModelFailed, match=f"status {status}") as caught:
        await model.answer(request())
    assert "secret" not in str(caught.value)
    assert len(server.asked) == 1


async def test_the_end_of_patience(asking_of: Asking) -> None:
    server, model = asking_of
    server.script = [Fail(500)] * 10
    with pytest.raises(ModelFailed, match=r"status 500.* after 5 attempts") as caught:
        await model.answer(request())
    assert "secret" not in str(caught.value)
    assert len(server.asked) == asking.ATTEMPTS


async def test_a_provider_that_asks_for_too_much_patience(asking_of: Asking) -> None:
    server, model = asking_of
    server.script = [Fail(429, {"retry-after": "3600"})]
    with pytest.raises(ModelFailed, match="after 1 attempts"):
        await model.answer(request())


async def test_nothing_is_there(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.001)
    nowhere = Endpoint("local", protocol, "http://127.0.0.1:1")
    models = Models({"local": nowhere}, lambda _: None, _none)
    with pytest.raises(ModelFailed, match="onnection"):
        await models("local:m").answer(request())
    await models.close()


@pytest.fixture
def find() -> Callable[[str], Model]:
    local = Endpoint("local", Protocol.OPENAI, "http://h/v1", "KEY", ("m",))
    free = replace(local, name="free", key="", models=())
    return Models({"local": local, "free": free}, lambda _: None, _none)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("local:other", "no provider"),
        ("nowhere:m", "no provider"),
        ("local:m", "variable KEY is empty"),
    ],
)
def test_models_that_are_not_here(find: Callable[[str], Model], name: str, why: str) -> None:
    with pytest.raises(ModelFailed, match=why):
        find(name)


def test_an_endpoint_without_a_list_or_a_key_takes_any(find: Callable[[str], Model]) -> None:
    assert find("free:a/b:c") is not None
