"""Tool servers over MCP's streamable HTTP: the library's own server, odd ones, lost connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hango_runner.agent.tools import NeedsInput, ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools import http, server
from hango_runner.tools.server_file import ServerConfig, Transport
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.http_server import serving
from tests.support.tool_servers import Running
from tests.support.waiting import eventually

Start = Callable[[ServerConfig], Awaitable[Running]]


def config(address: str, **more: Any) -> ServerConfig:
    return ServerConfig("web", Transport.MCP_HTTP, Path("/"), url=f"http://{address}/mcp", **more)


def library_server() -> MCPServer:
    made = MCPServer("web")

    @made.tool()
    async def identify(ctx: Context) -> str:
        return json.dumps(dict(ctx.request_context.meta or {}))

    @made.tool()
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @made.tool()
    async def confirm(ctx: Context) -> CallToolResult:
        given = (ctx.request_context.meta or {}).get("hango/inputs")
        if given:
            return CallToolResult(content=[TextContent(type="text", text=f"said {given}")])
        return CallToolResult(
            content=[], _meta={"hango/needs-input": {"payload": {"q": 1}, "schema": {}}}
        )

    return made


@asynccontextmanager
async def library(port: int = 0, **options: Any) -> AsyncIterator[str]:
    app = library_server().streamable_http_app(**options)
    async with serving(app, port) as address:
        yield address


@pytest.mark.parametrize("json_response", [True, False])
@pytest.mark.parametrize("stateless", [True, False])
async def test_the_librarys_own_server(start: Start, json_response: bool, stateless: bool) -> None:
    async with library(json_response=json_response, stateless_http=stateless) as address:
        web = await start(config(address))
        await web.connected()
        assert set(web.server.tools) == {"web__identify", "web__add", "web__confirm"}
        meta = json.loads((await web.call("identify")).text)
        assert {k: v for k, v in meta.items() if k.startswith("hango/")} == {
            "hango/idempotency-key": "key-1",
            "hango/run-id": "run-1",
            "hango/tool-call-id": "call-1",
        }
        result = await web.call("add", a=9007199254740993, b=0)
        assert result.structured is not None
        assert json.loads(result.structured) == {"sum": 9007199254740993}
        asked = await web.call_raw("confirm", b"{}")
        assert asked == NeedsInput(b'{"q":1}', b"{}")
        answered = await web.call_raw("confirm", b"{}", inputs=(b'"yes"',))
        assert not isinstance(answered, NeedsInput)
        assert answered.text == "said ['yes']"
        several = await asyncio.gather(*[web.call("add", a=i, b=i) for i in range(20)])
        assert [json.loads(r.text)["sum"] for r in several] == [2 * i for i in range(20)]


async def test_a_session_that_was_forgotten_is_begun_again(start: Start) -> None:
    """A server that restarts knows no session: the call that finds out was not looked at."""
    async with library() as address:
        web = await start(config(address))
        await web.connected()
    port = int(address.rpartition(":")[2])
    async with library(port):
        for _ in range(2):
            assert json.loads((await web.call("add", a=1, b=2)).text)["sum"] == 3


class Odd:
    """An HTTP server that speaks just enough MCP, and answers calls as the test says."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.heard: list[tuple[str, dict[str, str]]] = []
        self.tools: list[dict[str, Any]] = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self.answer: Callable[[Any], Response] = lambda asked: JSONResponse(
            result(asked, content=[{"type": "text", "text": "well"}])
        )
        self.release = asyncio.Event()
        self.notices: asyncio.Queue[str] = asyncio.Queue()

    def app(self) -> Starlette:
        route = Route("/mcp", self.serve, methods=["POST", "GET", "DELETE"])
        return Starlette(routes=[route])

    async def serve(self, request: Request) -> Response:
        if request.method != "POST":
            self.heard.append((request.method, dict(request.headers)))
            return self.listen() if request.method == "GET" else Response(status_code=200)
        asked = await request.json()
        self.heard.append((asked["method"], dict(request.headers)))
        match asked["method"]:
            case "initialize":
                return JSONResponse(
                    result(
                        asked,
                        protocolVersion=asked["params"]["protocolVersion"],
                        capabilities={"tools": {"listChanged": True}},
                        serverInfo={"name": "odd", "version": "0"},
                    ),
                    headers={"Mcp-Session-Id": "s-1"},
                )
            case "tools/list":
                return JSONResponse(result(asked, tools=self.tools))
            case "tools/call":
                self.calls.append(asked)
                return self.answer(asked)
        return Response(status_code=202)

    def listen(self) -> Response:
        async def notices() -> AsyncIterator[str]:
            while True:
                yield f'data: {{"jsonrpc": "2.0", "method": "{await self.notices.get()}"}}\n\n'

        return StreamingResponse(notices(), media_type="text/event-stream")

    def hang(self, asked: Any) -> Response:
        async def later() -> AsyncIterator[str]:
            yield ": wait\n\n"
            await self.release.wait()
            yield f"data: {json.dumps(result(asked, content=[]))}\n\n"

        return StreamingResponse(later(), media_type="text/event-stream")


def result(asked: Any, **found: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": found}


def error(asked: Any, code: int, message: str = "no", **more: Any) -> dict[str, Any]:
    fault = {"code": code, "message": message, **more}
    return {"jsonrpc": "2.0", "id": asked["id"], "error": fault}


def events(*lines: str) -> Response:
    return StreamingResponse(iter(lines), media_type="text/event-stream")


@pytest.fixture
async def odd(start: Start) -> AsyncIterator[tuple[Odd, Running]]:
    made = Odd()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(made.app()))
        web = await start(config(address, headers={"Authorization": "Bearer t0ken"}))
        await web.connected()
        yield made, web
        made.release.set()


async def test_headers_and_the_session_travel_along(odd: tuple[Odd, Running]) -> None:
    made, web = odd
    assert (await web.call("echo")).text == "well"
    first, call = made.heard[0], made.heard[-1]
    assert first[0] == "initialize"
    assert "mcp-session-id" not in first[1]
    assert (call[0], call[1]["mcp-session-id"]) == ("tools/call", "s-1")
    assert call[1]["mcp-protocol-version"]
    assert {headers["authorization"] for _, headers in made.heard} == {"Bearer t0ken"}


async def test_a_changed_list_is_read_again(odd: tuple[Odd, Running]) -> None:
    made, web = odd
    made.tools.append({"name": "grown", "inputSchema": {"type": "object"}})
    made.notices.put_nowait("notifications/tools/list_changed")

    async def grown() -> bool:
        return "web__grown" in web.server.tools

    await eventually(grown)


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (lambda asked: JSONResponse(error(asked, -32602), 400), ToolNotCalled),
        (lambda asked: JSONResponse(error(asked, -32601)), ToolNotCalled),
        (lambda asked: JSONResponse(error(asked, -32603), 500), ToolOutcomeUnknown),
        # A server cannot say "unsent" for us.
        (lambda asked: JSONResponse(error(asked, -32000, data={})), ToolOutcomeUnknown),
        (lambda _: Response("who?", 401), ToolNotCalled),
        (lambda _: Response("slow down", 429), ToolNotCalled),
        (lambda _: Response("oops", 500), ToolOutcomeUnknown),
        (lambda _: Response("gone", 502), ToolOutcomeUnknown),
        (lambda _: Response(status_code=202), ToolOutcomeUnknown),
        (lambda _: Response("<html>", media_type="text/html"), ToolOutcomeUnknown),
        (lambda _: Response("{", media_type="application/json"), ToolOutcomeUnknown),
        (lambda _: Response(headers={"location": "http://127.0.0.1:1/"}, status_code=307),
         ToolNotCalled),
        (lambda _: events(": nothing comes\n\n"), ToolOutcomeUnknown),
        (lambda _: events("data: {nonsense\n\n"), ToolOutcomeUnknown),
        (lambda _: events("data: " + "x" * 5_000_000 + "\n\n"), ToolOutcomeUnknown),
        (lambda asked: JSONResponse(result(asked, content="no list")), ToolOutcomeUnknown),
    ],
)  # fmt: skip
async def test_what_an_answer_means(
    odd: tuple[Odd, Running], answer: Callable[[Any], Response], raised: type[Exception]
) -> None:
    made, web = odd
    usual, made.answer = made.answer, answer
    with pytest.raises(raised):
        await web.call("echo")
    made.answer = usual
    assert (await web.call("echo")).text == "well"


async def test_a_refused_call_is_not_sent_again_for_nothing(odd: tuple[Odd, Running]) -> None:
    made, web = odd
    made.answer = lambda _: Response(status_code=403)
    with pytest.raises(ToolNotCalled, match="403"):
        await web.call("echo")
    # Once more, since it may have been the session; an unread call may be repeated.
    assert len(made.calls) == 2


async def test_a_call_that_is_given_up_is_told_and_dropped(odd: tuple[Odd, Running]) -> None:
    made, web = odd
    usual, made.answer = made.answer, made.hang
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await web.call("echo")

    async def told() -> bool:
        return any(method == "notifications/cancelled" for method, _ in made.heard)

    await eventually(told)
    made.answer = usual
    assert (await web.call("echo")).text == "well"


async def test_one_lost_answer_hurts_no_other(odd: tuple[Odd, Running]) -> None:
    made, web = odd
    usual, made.answer = made.answer, made.hang
    slow = asyncio.create_task(web.call("echo"))

    async def under_way() -> bool:
        return bool(made.calls)

    await eventually(under_way)
    made.answer = lambda _: events(": cut\n\n")
    with pytest.raises(ToolOutcomeUnknown):
        await web.call("echo")
    made.answer = usual
    made.release.set()
    assert (await slow).text == ""


async def test_death_in_mid_call_leaves_the_outcome_unknown(start: Start) -> None:
    """Case 33."""
    made = Odd()
    made.answer = made.hang
    async with serving(made.app()) as address:
        web = await start(config(address))
        await web.connected()
        call = asyncio.create_task(web.call("echo"))

        async def under_way() -> bool:
            return bool(made.calls)

        await eventually(under_way)
    with pytest.raises(ToolOutcomeUnknown):
        await call
    assert len(made.calls) == 1


async def test_a_server_that_is_not_there_is_not_called(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RECONNECT_WAIT", 0.2)
    made = Odd()
    async with serving(made.app()) as address:
        web = await start(config(address))
        await web.connected()
    with pytest.raises(ToolNotCalled, match="cannot be reached"):
        await web.call("echo")
    lost = await start(config("127.0.0.1:1"))
    await lost.server.tried.wait()
    assert lost.server.trouble


async def test_the_end_of_the_session_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.tool_servers import running

    made = Odd()
    async with serving(made.app()) as address:
        async with running(config(address)) as web:
            await web.connected()
        assert made.heard[-1][0] == "DELETE"
    assert http.STOP_TIMEOUT <= 1
