"""A tool server that implements `hango.tools.v1.ToolService`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
from grpc import StatusCode, aio
from hango.tools.v1 import tools_pb2, tools_pb2_grpc
from hango_policy import strict_json
from hango_policy.errors import JsonRefused
from hango_policy.schemas import MAX_SCHEMA_BYTES

from hango_runner.agent.tools import Effect, ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools.answers import answer, question
from hango_runner.tools.link import MAX_MESSAGE_BYTES
from hango_runner.tools.listing import listed_tools
from hango_runner.tools.server import START_TIMEOUT, Away, ToolServer
from hango_runner.tools.server_file import EFFECTS
from hango_runner.tools.text import presentable

if TYPE_CHECKING:
    from hango_runner.agent.tools import NeedsInput, ToolCallContext, ToolResult
    from hango_runner.tools.server_file import ServerConfig

log = logging.getLogger(__name__)

# A server that answers so says that it did not begin: there is no such tool, or not for us.
_REFUSALS = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNAUTHENTICATED,
        StatusCode.UNIMPLEMENTED,
    }
)
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Repeating a call is the executor's to decide, by the tool's effect.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # A connection that rests would look like a server that went away.
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    # Each server has a connection of its own; how long to wait between attempts is up to `run`.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class GrpcServer(ToolServer["tools_pb2_grpc.ToolServiceAsyncStub"]):
    """One server by its address. Its tools are listed anew at each connection."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._channel: aio.Channel | None = None
        self._listed = False
        self._metadata = tuple((key.lower(), value) for key, value in config.headers.items())

    async def run(self) -> None:
        """As the base says, over one channel: a server that stops in good order still answers the
        calls under way on the connection that it leaves.
        """
        async with aio.insecure_channel(self.config.address, options=_OPTIONS) as self._channel:
            await super().run()

    async def call(
        self, name: str, arguments: bytes, context: ToolCallContext
    ) -> ToolResult | NeedsInput:
        """As the base says."""
        request = tools_pb2.CallToolRequest(
            name=name,
            arguments_json=arguments,
            idempotency_key=context.idempotency_key,
            tenant=context.tenant,
            agent=context.agent,
            run_id=context.run_id,
            tool_call_id=context.tool_call_id,
            fencing_token=context.fencing_token,
            inputs_json=context.inputs,
        )
        stub = await self._connection_soon()
        try:
            response = await stub.CallTool(request, metadata=self._metadata)
        except aio.AioRpcError as error:
            if error.code() in _REFUSALS:
                why = presentable(error.details() or error.code().name, 1000)
                message = f"The server refused the call: {why}"
                raise ToolNotCalled(message) from None
            message = f"the call ended by status {error.code().name}"
            raise ToolOutcomeUnknown(message) from None
        return _read(response)

    def _connection(self) -> tools_pb2_grpc.ToolServiceAsyncStub | None:
        channel = self._channel
        if channel is None or not self._listed:
            return None
        if channel.get_state() is not grpc.ChannelConnectivity.READY:
            return None
        return tools_pb2_grpc.ToolServiceStub(channel)

    def _forget(self) -> None:
        self._listed = False

    async def _connect(self) -> Away:
        channel = self._channel
        assert channel is not None  # noqa: S101 - `run` has made it
        if trouble := await self._get_acquainted(channel):
            return Away(trouble)
        self._listed = True
        self._connected()
        await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        return Away("the connection ended")

    async def _get_acquainted(self, channel: aio.Channel) -> str:
        """List the tools; what went wrong."""
        stub = tools_pb2_grpc.ToolServiceStub(channel)
        try:
            listed = await stub.ListTools(
                tools_pb2.ListToolsRequest(), timeout=START_TIMEOUT, metadata=self._metadata
            )
        except aio.AioRpcError as error:
            if error.code() is StatusCode.UNAVAILABLE:
                return "the server cannot be reached"
            return f"the server does not list its tools ({error.code().name})"
        effects = {t.name: Effect(t.effect) for t in listed.tools if t.effect in EFFECTS}
        config = replace(self.config, effects={**effects, **self.config.effects})
        offered = [_offer(tool) for tool in listed.tools]
        # In a thread: hostile schemas are refused in bounded, but not in no time.
        self.tools = await asyncio.to_thread(listed_tools, config, offered)
        return ""


def _offer(tool: tools_pb2.Tool) -> dict[str, Any]:
    """A tool in the form that the listing reads; a schema that is no JSON is left out."""
    try:
        schema = strict_json.parse(tool.parameters_json, max_bytes=MAX_SCHEMA_BYTES)
    except JsonRefused:
        schema = None
    return {"name": tool.name, "description": tool.description, "inputSchema": schema}


def _read(response: tools_pb2.CallToolResponse) -> ToolResult | NeedsInput:
    """What came of a call. Raises ToolOutcomeUnknown for what cannot be understood."""
    try:
        match response.WhichOneof("outcome"):
            case "result":
                result = response.result
                structured = result.structured_json or None
                if structured is not None:
                    strict_json.parse(structured, max_bytes=MAX_MESSAGE_BYTES)
                return answer(result.text, structured, is_error=result.is_error)
            case "needs_input":
                asked = response.needs_input
                return question(asked.payload_json, asked.schema_json or None)
    except JsonRefused:
        pass
    message = "the server's answer is not well-formed"
    raise ToolOutcomeUnknown(message)
