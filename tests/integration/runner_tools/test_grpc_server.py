"""Tool servers over gRPC: the SDK's own, odd ones, death in mid-call."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from hango.tool_server import ToolCall, ToolError, ToolServer, tool
from hango.tools.v1 import tools_pb2, tools_pb2_grpc
from hango_runner.agent.tools import (
    Effect,
    NeedsInput,
    ToolNotCalled,
    ToolOutcomeUnknown,
    ToolResult,
)
from hango_runner.tools import server
from hango_runner.tools.server_file import ServerConfig, Transport

from tests.support.processes import python
from tests.support.tool_servers import ROOT, Running
from tests.support.waiting import eventually

Start = Callable[[ServerConfig], Awaitable[Running]]
RELEASES = ROOT / "examples" / "release-bot" / "releases.py"


def config(address: str, **more: Any) -> ServerConfig:
    return ServerConfig("mine", Transport.GRPC, Path("/"), address=address, **more)


@tool(effect="keyed")
async def identify(call: ToolCall) -> dict[str, Any]:
    """Says what came along."""
    return {
        "key": call.idempotency_key,
        "tenant": call.tenant,
        "agent": call.agent,
        "run": call.run_id,
        "call": call.tool_call_id,
        "token": call.fencing_token,
    }


@tool(effect="read")
def count(item: str, times: int = 1) -> str:
    """A tool that is not async."""
    if times < 0:
        message = f"cannot do that to {item}"
        raise ToolError(message)
    if times == 0:
        raise RuntimeError(item)
    return item * times


@tool
async def confirm(call: ToolCall) -> str:
    """Asks twice."""
    name = call.ask({"question": "Who?"}, {"type": "string"})
    sure = call.ask({"question": f"Sure, {name}?"})
    return f"{name}: {sure}"


@pytest.fixture
async def mine(start: Start) -> AsyncIterator[Running]:
    served = ToolServer(identify, count, confirm)
    address = await served.start("127.0.0.1:0")
    running = await start(config(address))
    await running.connected()
    yield running
    await served.stop(0)


async def test_what_it_says_of_itself(mine: Running) -> None:
    specs = {name: listed.spec for name, listed in mine.server.tools.items()}
    assert {name: spec.effect for name, spec in specs.items()} == {
        "mine__identify": Effect.KEYED,
        "mine__count": Effect.READ,
        "mine__confirm": Effect.ONCE,
    }
    assert specs["mine__count"].description == "A tool that is not async."
    schema = mine.server.tools["mine__count"].schema
    assert schema is not None
    assert schema.violations({"item": "a", "times": 2}) == []
    assert schema.violations({"item": "a", "call": {}})
    assert specs["mine__identify"].parameters["properties"] == {}


async def test_the_operators_word_wins(start: Start, mine: Running) -> None:
    effects = {"identify": Effect.ONCE}
    again = await start(replace(mine.server.config, effects=effects))
    await again.connected()
    assert again.server.tools["mine__identify"].spec.effect is Effect.ONCE
    assert again.server.tools["mine__count"].spec.effect is Effect.READ


async def test_a_call_carries_its_identity(mine: Running) -> None:
    result = await mine.call("identify")
    assert result.structured is not None
    assert json.loads(result.structured) == json.loads(result.text)
    assert json.loads(result.text) == {
        "key": "key-1",
        "tenant": "demo",
        "agent": "a",
        "run": "run-1",
        "call": "call-1",
        "token": "1",
    }


async def test_failures_that_are_known_and_one_that_is_not(mine: Running) -> None:
    assert (await mine.call("count", item="ab", times=2)).text == "abab"
    failed = await mine.call("count", item="ab", times=-1)
    assert (failed.is_error, failed.text) == (True, "cannot do that to ab")
    unfit = await mine.call("count", item=3)
    assert unfit.is_error
    assert "item" in unfit.text
    with pytest.raises(ToolOutcomeUnknown, match="INTERNAL"):
        await mine.call("count", item="ab", times=0)
    with pytest.raises(ToolNotCalled, match="no such tool"):
        await mine.call("nope")


async def test_questions_are_asked_in_order(mine: Running) -> None:
    first = await mine.call_raw("confirm", b"{}")
    assert first == NeedsInput(b'{"question":"Who?"}', b'{"type": "string"}')
    second = await mine.call_raw("confirm", b"{}", inputs=(b'"Ada"',))
    assert second == NeedsInput(b'{"question":"Sure, Ada?"}')
    done = await mine.call_raw("confirm", b"{}", inputs=(b'"Ada"', b"true"))
    assert not isinstance(done, NeedsInput)
    assert done.text == "Ada: True"


class Odd(tools_pb2_grpc.ToolServiceServicer):
    """Answers what the test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.tools = [tools_pb2.Tool(name="echo", parameters_json=b'{"type": "object"}')]
        self.response = tools_pb2.CallToolResponse()
        self.status: grpc.StatusCode | None = None
        self.hang = False
        self.asked: list[tools_pb2.CallToolRequest] = []
        self.metadata: dict[str, Any] = {}
        self.cancelled = asyncio.Event()

    async def ListTools(self, request: Any, context: Any) -> tools_pb2.ListToolsResponse:  # noqa: N802
        return tools_pb2.ListToolsResponse(tools=self.tools)

    async def CallTool(self, request: Any, context: Any) -> tools_pb2.CallToolResponse:  # noqa: N802
        self.asked.append(request)
        self.metadata = dict(context.invocation_metadata())
        if self.hang:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if self.status is not None:
            await context.abort(self.status, "because")
        return self.response


@pytest.fixture
async def odd() -> AsyncIterator[tuple[Odd, str, aio.Server]]:
    servicer, served = Odd(), aio.server()
    tools_pb2_grpc.add_ToolServiceServicer_to_server(servicer, served)
    port = served.add_insecure_port("127.0.0.1:0")
    await served.start()
    yield servicer, f"127.0.0.1:{port}", served
    await served.stop(0)


OddServer = tuple[Odd, str, aio.Server]


async def test_bytes_arrive_as_they_were_approved(start: Start, odd: OddServer) -> None:
    """Case 41: exact digits, whatever a JSON library would make of them."""
    servicer, address, _ = odd
    servicer.response.result.text = "a\0b\ud7ff"
    mine = await start(config(address, headers={"X-Team": "blue"}))
    raw = b'{"n": 9007199254740993, "e": 1e400,  "s": "\\ud800\\u0000"}'
    result = await mine.call_raw("echo", raw)
    assert servicer.asked[0].arguments_json == raw
    assert servicer.metadata["x-team"] == "blue"
    assert result == ToolResult("a\ufffdb\ud7ff")


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, ToolNotCalled),
        (grpc.StatusCode.NOT_FOUND, ToolNotCalled),
        (grpc.StatusCode.PERMISSION_DENIED, ToolNotCalled),
        (grpc.StatusCode.UNAUTHENTICATED, ToolNotCalled),
        (grpc.StatusCode.UNIMPLEMENTED, ToolNotCalled),
        (grpc.StatusCode.UNAVAILABLE, ToolOutcomeUnknown),
        (grpc.StatusCode.INTERNAL, ToolOutcomeUnknown),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ToolOutcomeUnknown),
        (grpc.StatusCode.UNKNOWN, ToolOutcomeUnknown),
    ],
)
async def test_what_a_status_means(
    start: Start, odd: OddServer, status: grpc.StatusCode, raised: type[Exception]
) -> None:
    servicer, address, _ = odd
    servicer.status = status
    mine = await start(config(address))
    with pytest.raises(raised):
        await mine.call("echo")
    assert len(servicer.asked) == 1


@pytest.mark.parametrize(
    "response",
    [
        tools_pb2.CallToolResponse(),
        tools_pb2.CallToolResponse(result=tools_pb2.ToolResult(structured_json=b"{")),
        tools_pb2.CallToolResponse(needs_input=tools_pb2.NeedsInput(payload_json=b"what?")),
        tools_pb2.CallToolResponse(
            needs_input=tools_pb2.NeedsInput(payload_json=b"1", schema_json=b"no")
        ),
    ],
)
async def test_what_cannot_be_understood_is_unknown(
    start: Start, odd: OddServer, response: tools_pb2.CallToolResponse
) -> None:
    servicer, address, _ = odd
    servicer.response = response
    mine = await start(config(address))
    with pytest.raises(ToolOutcomeUnknown, match="not well-formed"):
        await mine.call("echo")


async def test_long_results_are_cut_and_a_question_must_be_checkable(
    start: Start, odd: OddServer
) -> None:
    servicer, address, _ = odd
    mine = await start(config(address))
    servicer.response.result.text = "x" * 100_000
    servicer.response.result.structured_json = json.dumps("y" * 300_000).encode()
    result = await mine.call("echo")
    assert len(result.text) < 66_000
    assert "[cut here" in result.text
    assert result.structured is None
    servicer.response = tools_pb2.CallToolResponse(
        needs_input=tools_pb2.NeedsInput(payload_json=b"1", schema_json=b'{"type": "nonsense"}')
    )
    with pytest.raises(ToolNotCalled, match="schema of its question"):
        await mine.call("echo")


async def test_hostile_tools_are_dropped_alone(start: Start, odd: OddServer) -> None:
    """Case 40."""
    servicer, address, _ = odd
    servicer.tools += [
        tools_pb2.Tool(name="text", parameters_json=b"nonsense", effect="transactional"),
        tools_pb2.Tool(name="remote", parameters_json=b'{"$ref": "http://127.0.0.1:1/x"}'),
        tools_pb2.Tool(name="back", parameters_json=b'{"pattern": "(a+)+(b|c"}'),
        tools_pb2.Tool(name="sp ace", parameters_json=b"{}"),
    ]
    mine = await start(config(address))
    await mine.connected()
    listed = mine.server.tools
    assert {name: bool(tool.spec.unavailable) for name, tool in listed.items()} == {
        "mine__echo": False,
        "mine__text": True,
        "mine__remote": True,
        "mine__back": True,
        "mine__sp?ace": True,
    }
    assert listed["mine__text"].spec.effect is Effect.ONCE


async def test_a_call_that_is_given_up_is_cancelled(start: Start, odd: OddServer) -> None:
    servicer, address, _ = odd
    servicer.hang = True
    mine = await start(config(address))
    await mine.connected()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await mine.call("echo")
    await asyncio.wait_for(servicer.cancelled.wait(), 5)
    servicer.hang = False
    servicer.response.result.text = "well"
    assert (await mine.call("echo")).text == "well"


async def test_a_server_that_is_not_there_is_not_called(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RECONNECT_WAIT", 0.2)
    mine = await start(config("127.0.0.1:1"))
    with pytest.raises(ToolNotCalled, match="cannot be reached"):
        await mine.call("echo")
    await mine.server.tried.wait()
    assert mine.server.trouble == "the server cannot be reached"


async def test_death_in_mid_call_leaves_the_outcome_unknown(start: Start, odd: OddServer) -> None:
    """Case 33; the server comes back by itself as far as the runner is concerned."""
    servicer, address, served = odd
    servicer.hang = True
    mine = await start(config(address))
    await mine.connected()
    call = asyncio.create_task(mine.call("echo"))

    async def under_way() -> bool:
        return bool(servicer.asked)

    await eventually(under_way)
    await served.stop(0)
    with pytest.raises(ToolOutcomeUnknown):
        await call
    again = aio.server()
    tools_pb2_grpc.add_ToolServiceServicer_to_server(Odd(), again)
    again.add_insecure_port(address)
    await again.start()
    with pytest.raises(ToolOutcomeUnknown, match="not well-formed"):
        await mine.call("echo")
    await again.stop(0)


async def test_a_killed_process_and_a_repeat_with_the_same_key(
    start: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    env = {"RELEASES_LOG": str(log), "RELEASES_ADDR": "127.0.0.1:0"}
    async with python(RELEASES, **env) as (process, first):
        address = first.rpartition(" ")[2]
        mine = await start(config(address))
        for _ in range(2):
            assert not (await mine.call("ship", release="1.2.0", where="staging")).is_error
        process.kill()
        await process.wait()
        env["RELEASES_ADDR"] = address
        async with python(RELEASES, **env):
            result = await mine.call("ship", release="1.2.0", where="staging")
    assert result.text == "1.2.0 is in staging."
    assert len(log.read_text().splitlines()) == 1


async def test_it_stops_in_good_order(tmp_path: Path) -> None:
    env = {"RELEASES_LOG": str(tmp_path / "log"), "RELEASES_ADDR": "127.0.0.1:0"}
    async with python(RELEASES, **env) as (process, first):
        assert first.startswith("listening on 127.0.0.1:")
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0
