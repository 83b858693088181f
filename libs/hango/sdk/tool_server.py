"""Serve typed functions as tools of hango agents, over gRPC.

    from hango import tool_server
    from hango.tool_server import ToolCall, tool

    @tool(effect="keyed")
    async def ship(release: str, call: ToolCall) -> str:
        "Ship a release."
        ...

    tool_server.serve(ship, address="127.0.0.1:7500")

The operator names the server in hango's file of tool servers:

    [releases]
    transport = "grpc"
    address = "127.0.0.1:7500"

There is neither encryption nor a check of who calls: bind to loopback, or put the server behind
what your network uses for both.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from pydantic import ValidationError

from hango.sdk.tools import NeedsInput, Tool, ToolCall, ToolError, is_model, structured, tool
from hango.tools.v1 import tools_pb2, tools_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NeedsInput", "Tool", "ToolCall", "ToolError", "ToolServer", "serve", "tool"]

log = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that calls under way get to end when the server stops."""

_SERVICE = tools_pb2.DESCRIPTOR.services_by_name["ToolService"].full_name


class ToolServer:
    """A gRPC server of these tools, with health checking. Raises ValueError for equal names."""

    def __init__(self, *tools: Tool[..., Any]) -> None:
        self._tools = {each.name: each for each in tools}
        if len(self._tools) != len(tools):
            message = "two tools have the same name"
            raise ValueError(message)
        self._health = health.aio.HealthServicer()
        self._server: aio.Server | None = None

    async def start(self, address: str) -> str:
        """Serve at `host:port` (port 0 picks one); the address that it is. Raises OSError."""
        server = aio.server(options=(("grpc.so_reuseport", 0),))
        tools_pb2_grpc.add_ToolServiceServicer_to_server(_Servicer(self._tools), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            message = f"cannot listen on {address}"
            raise OSError(message) from error
        await server.start()
        for name in ("", _SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._server = server
        return f"{address.rpartition(':')[0]}:{port}"

    async def stop(self, grace: float = GRACE) -> None:
        """Take no more calls; give those under way `grace` seconds."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace)


def serve(
    *tools: Tool[..., Any],
    address: str,
    grace: float = GRACE,
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let calls under way end.

    `on_ready` is called with the address once calls are taken. Raises OSError.
    """
    asyncio.run(_serve(ToolServer(*tools), address, grace, on_ready))


async def _serve(
    server: ToolServer, address: str, grace: float, on_ready: Callable[[str], object] | None
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    bound = await server.start(address)
    log.info("tool server listens", extra={"address": bound})
    if on_ready is not None:
        on_ready(bound)
    try:
        await stopping.wait()
    finally:
        await server.stop(grace)


class _Servicer(tools_pb2_grpc.ToolServiceServicer):
    """The wire's side of the tools."""

    def __init__(self, tools: dict[str, Tool[..., Any]]) -> None:
        self._tools = tools

    async def ListTools(  # noqa: N802 - grpc's
        self, request: tools_pb2.ListToolsRequest, context: Any
    ) -> tools_pb2.ListToolsResponse:
        """As the proto says."""
        del request, context
        return tools_pb2.ListToolsResponse(
            tools=[
                tools_pb2.Tool(
                    name=each.name,
                    description=each.description,
                    parameters_json=json.dumps(each.parameters).encode(),
                    effect=each.effect,
                )
                for each in self._tools.values()
            ]
        )

    async def CallTool(  # noqa: N802 - grpc's
        self, request: tools_pb2.CallToolRequest, context: Any
    ) -> tools_pb2.CallToolResponse:
        """As the proto says; an exception that is no ToolError ends as status INTERNAL."""
        found = self._tools.get(request.name)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such tool")
            raise AssertionError  # abort has raised
        try:
            arguments = found.bind(request.arguments_json, _call(request))
        except ValidationError as error:
            return _result(_faults(error), is_error=True)
        try:
            return _answer(await _run(found, arguments))
        except NeedsInput as asked:
            return _question(asked)
        except ToolError as error:
            return _result(str(error), is_error=True)
        except Exception:
            # Whether it had its effect is not known here: hango must not be told that it failed.
            log.exception("a tool raised", extra={"tool": found.name})
            await context.abort(grpc.StatusCode.INTERNAL, "the tool raised an exception")
            raise


async def _run(found: Tool[..., Any], arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(found.function):
        return await found.function(**arguments)
    return await asyncio.to_thread(found.function, **arguments)


def _call(request: tools_pb2.CallToolRequest) -> ToolCall:
    return ToolCall(
        idempotency_key=request.idempotency_key,
        tenant=request.tenant,
        agent=request.agent,
        run_id=request.run_id,
        tool_call_id=request.tool_call_id,
        fencing_token=request.fencing_token,
        inputs=tuple(json.loads(given) for given in request.inputs_json),
    )


def _answer(value: Any) -> tools_pb2.CallToolResponse:
    if value is None or isinstance(value, str):
        return _result(value or "")
    text = structured(value)
    return _result(text.decode(), text if is_model(value) else b"")


def _question(asked: NeedsInput) -> tools_pb2.CallToolResponse:
    return tools_pb2.CallToolResponse(
        needs_input=tools_pb2.NeedsInput(
            payload_json=structured(asked.payload),
            schema_json=b"" if asked.schema is None else json.dumps(asked.schema).encode(),
        )
    )


def _result(
    text: str, content: bytes = b"", *, is_error: bool = False
) -> tools_pb2.CallToolResponse:
    result = tools_pb2.ToolResult(text=text, structured_json=content, is_error=is_error)
    return tools_pb2.CallToolResponse(result=result)


def _faults(error: ValidationError) -> str:
    """What is wrong with the arguments, without their values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    listed = "; ".join(f"{'/'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
    return f"The arguments do not fit: {listed}"
