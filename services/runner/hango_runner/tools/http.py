"""The client's side of MCP over streamable HTTP, as the message streams of an MCP session.

Why not the library's own `streamable_http_client`: one request that cannot connect ends all that
are under way, it does not say whether a failed request was sent, and it follows redirects.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from hango_runner.tools.link import MAX_MESSAGE_BYTES, UNSENT, Link

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp_types import JSONRPCMessage

    from hango_runner.tools.server_file import ServerConfig

CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 30.0
"""Seconds to connect, and to hand a request over. An answer has no limit here."""
LISTEN_AGAIN = 1.0
"""Seconds after which a stream of notifications that ended is opened again."""
STOP_TIMEOUT = 1.0
"""Seconds that telling the server of the end may take."""

_SESSION = "mcp-session-id"
_INITIALIZED = "notifications/initialized"
_VERSION = "mcp-protocol-version"
# Nothing of the request has reached the server then.
_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# Statuses of whoever stands before the tools: credentials, routes, rates, sizes.
_REFUSED = frozenset({*range(300, 400), 401, 403, 404, 405, 406, 413, 415, 421, 429})


@asynccontextmanager
async def open_link(config: ServerConfig) -> AsyncIterator[Link]:
    """Streams to and from the server at `config.url`; nothing is sent before the first message."""
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](math.inf)
    link = Link(incoming, outgoing)
    timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx2.AsyncClient(
        headers=dict(config.headers), timeout=timeout, limits=limits, trust_env=False
    ) as client:
        conversation = _Conversation(config.url, client, link, to_session)
        pump = asyncio.create_task(conversation.send_all(from_session))
        try:
            yield link
        finally:
            link.closed.set()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            await conversation.end()
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()


class _Conversation:
    """One session: each message of ours is a POST, answered by JSON or by a stream of events."""

    def __init__(
        self,
        url: str,
        client: httpx2.AsyncClient,
        link: Link,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        self._url = url
        self._client = client
        self._link = link
        self._to_session = to_session
        self._headers: dict[str, str] = {}
        self._posts: dict[object, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    async def send_all(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """POST what the session says, requests side by side, in its order."""
        try:
            async for item in messages:
                match item.message:
                    case JSONRPCRequest() as request:
                        post = asyncio.create_task(self._ask(request))
                        self._posts[request.id] = post
                        post.add_done_callback(partial(self._answered, request.id))
                    case JSONRPCNotification(method="notifications/cancelled") as notice:
                        self._spawn(self._abandon(notice))
                    case message:
                        # In order: the server must know that it is initialised before it is asked.
                        await self._tell(message)
        finally:
            self._link.closed.set()

    async def end(self) -> None:
        """Stop what is under way, and tell the server that the session is over."""
        tasks = [*self._posts.values(), *self._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if _SESSION not in self._headers:
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._client.delete(self._url, headers=self._headers)
        except (httpx2.HTTPError, TimeoutError):
            pass  # it finds out by itself

    async def _ask(self, request: JSONRPCRequest) -> None:
        """POST a request; its answer, or an error that stands for it, goes to the session."""
        try:
            async with self._post(request) as response:
                if response.status_code >= 300:
                    await self._refused(request, response)
                    return
                if request.method == "initialize" and _SESSION in response.headers:
                    self._headers[_SESSION] = response.headers[_SESSION]
                async for message in _messages(response):
                    await self._hand_in(request, message)
                    if isinstance(message, JSONRPCResponse | JSONRPCError):
                        return
        except _NOT_CONNECTED:
            self._link.closed.set()
            await self._fail(request, "its server cannot be reached now.", sent=False)
        except (httpx2.HTTPError, ValueError):
            await self._fail(request, "the answer broke off")
        else:
            await self._fail(request, "the answer ended early")

    async def _hand_in(self, request: JSONRPCRequest, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            message.id = request.id
        if isinstance(message, JSONRPCResponse) and request.method == "initialize":
            version = message.result.get("protocolVersion")
            if isinstance(version, str):
                self._headers[_VERSION] = version
        await self._to_session.send(SessionMessage(message))

    async def _refused(self, request: JSONRPCRequest, response: httpx2.Response) -> None:
        """A status that is no success: the error in its body if there is one, else what it says."""
        async for message in _messages(response):
            if isinstance(message, JSONRPCError) and response.status_code != 404:
                await self._hand_in(request, message)
                return
        forgotten = response.status_code == 404 and _SESSION in self._headers
        if forgotten:
            del self._headers[_SESSION]
            self._link.closed.set()
        sent = response.status_code not in _REFUSED
        await self._fail(request, f"its server answered {response.status_code}.", sent=sent)

    async def _fail(self, request: JSONRPCRequest, why: str, *, sent: bool = True) -> None:
        error = ErrorData(code=CONNECTION_CLOSED, message=why, data=None if sent else UNSENT)
        reply = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        await self._to_session.send(SessionMessage(reply))

    async def _tell(self, message: JSONRPCMessage) -> None:
        """POST what needs no answer. It is a courtesy: requests find out by themselves."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT), self._post(message):
                pass
        except (httpx2.HTTPError, TimeoutError):
            return
        if isinstance(message, JSONRPCNotification) and message.method == _INITIALIZED:
            self._spawn(self._listen())

    async def _abandon(self, notice: JSONRPCNotification) -> None:
        """Nobody waits for this request any more: say so, then hang up."""
        abandoned = self._posts.get((notice.params or {}).get("requestId"))
        await self._tell(notice)
        if abandoned is not None:
            abandoned.cancel()

    def _answered(self, request_id: object, _post: asyncio.Task[None]) -> None:
        self._posts.pop(request_id, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _listen(self) -> None:
        """Hear what the server says unasked, where it offers that."""
        while True:
            headers = {**self._headers, "accept": "text/event-stream"}
            try:
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    if response.status_code == 404 and _SESSION in self._headers:
                        self._link.closed.set()  # it has forgotten us
                    if response.status_code != 200:
                        return
                    async for message in _messages(response):
                        await self._to_session.send(SessionMessage(message))
            except (httpx2.HTTPError, ValueError):
                pass  # it may come back; a request that does not reach it ends the session
            await asyncio.sleep(LISTEN_AGAIN)

    @asynccontextmanager
    async def _post(self, message: JSONRPCMessage) -> AsyncIterator[httpx2.Response]:
        headers: Mapping[str, str] = {
            **self._headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        body = message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._client.stream(
            "POST", self._url, content=body, headers=headers
        ) as response:
            yield response


async def _messages(response: httpx2.Response) -> AsyncIterator[JSONRPCMessage]:
    """The messages of a body. Raises ValueError for one that is too long or is none."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        try:
            async for event in httpx2.EventSource(response, max_event_size=MAX_MESSAGE_BYTES):
                if event.event == "message" and event.data:
                    yield jsonrpc_message_adapter.validate_json(event.data, by_name=False)
        except httpx2.SSEError as error:
            raise ValueError(str(error)) from error
    elif kind == "application/json":
        yield jsonrpc_message_adapter.validate_json(await _body(response), by_name=False)


async def _body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            message = "the message is too long"
            raise ValueError(message)
    return bytes(body)
