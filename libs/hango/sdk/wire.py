"""HTTP beneath the client: bodies, refusals, repetitions, pages, event streams."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any

import httpx
from httpx_sse import SSEError, aconnect_sse

from hango.sdk.errors import HangoError, IdempotencyInFlight, OutcomeUnknown, Unavailable, refusal
from hango.sdk.values import Event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAUSES = (0.2, 0.5, 1.0, 2.0)
_MARGIN = 10.0
_STREAM_SILENCE = 45.0  # a comment comes every 15 s
_PASSING = (Unavailable, OutcomeUnknown, IdempotencyInFlight)


class Wire:
    """One API, as one user. A call that could not be answered is repeated for `patience` seconds:
    each POST carries an idempotency key that its repetitions share.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float,
        patience: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        base = httpx.URL(url.rstrip("/"))
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={"authorization": f"Bearer {api_key}"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            trust_env=base.host not in _LOOPBACK,  # no proxy leads to our own host
            transport=transport,
        )
        self._timeout = timeout
        self._patience = patience

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Any:
        """What the API answers; `wait` is for how many seconds it may think. Raises HangoError."""
        headers = {"content-type": "application/json"} if body is not None else {}
        if method == "POST":
            headers["idempotency-key"] = secrets.token_hex(16)
        request = self._http.build_request(
            method,
            path,
            content=None if body is None else json.dumps(body).encode(),
            params={k: v for k, v in (query or {}).items() if v is not None},
            headers=headers,
            timeout=httpx.Timeout(self._timeout + wait, connect=min(self._timeout, 5.0)),
        )
        deadline = asyncio.get_running_loop().time() + self._patience
        for pause in _pauses():
            try:
                return await self._once(request)
            except _PASSING:
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # the pauses never end

    async def pages(
        self, path: str, query: Mapping[str, Any] | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """All items of a list, page by page. Raises HangoError."""
        token = None
        while True:
            page = await self.call("GET", path, query={**(query or {}), "page_token": token})
            for item in page["items"]:
                yield item
            token = page.get("next_page_token")
            if not token:
                return

    async def events(self, path: str, after: int | None) -> AsyncIterator[Event]:
        """A stream to its end, over as many connections as it takes; nothing twice, no gap.

        Raises HangoError; Unavailable after a minute or so without a connection.
        """
        pauses = _pauses()
        failed_since: float | None = None
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async for event in self._connection(path, after):
                    failed_since, pauses = None, _pauses()
                    after = event.id if event.id is not None else after
                    yield event
                    if event.type == "run.finished":
                        return
            except _StreamOver:
                return
            except (httpx.TransportError, SSEError, *_PASSING) as error:
                failed_since = failed_since or clock()
                if clock() - failed_since > max(self._patience, _STREAM_SILENCE):
                    raise _unreachable(error) from error
            await asyncio.sleep(next(pauses))

    async def _connection(self, path: str, after: int | None) -> AsyncIterator[Event]:
        headers = {} if after is None else {"last-event-id": str(after)}
        timeout = httpx.Timeout(_STREAM_SILENCE, connect=5.0)
        async with aconnect_sse(
            self._http, "GET", path, headers=headers, timeout=timeout
        ) as source:
            if source.response.status_code == httpx.codes.NO_CONTENT:
                raise _StreamOver
            if not source.response.is_success:
                await source.response.aread()
                raise _refused(source.response)
            async for event in source.aiter_sse():
                if event.data:  # `retry` alone is no event
                    # httpx_sse hands the last id on to events without one; a delta has none.
                    kept = event.id and event.event != "model.delta"
                    yield Event(
                        int(event.id) if kept else None, event.event, json.loads(event.data)
                    )

    async def _once(self, request: httpx.Request) -> Any:
        try:
            response = await self._http.send(request)
        except httpx.TransportError as error:
            raise _unreachable(error) from error
        if not response.is_success:
            raise _refused(response)
        return response.json() if response.content else None


class _StreamOver(Exception):
    """The server says that there is no more to come."""


def _pauses() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]


def _refused(response: httpx.Response) -> HangoError:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return refusal(response.status_code, problem if isinstance(problem, dict) else {})


def _unreachable(error: Exception) -> HangoError:
    if isinstance(error, HangoError):
        return error
    # Once sent, nobody knows; before, nothing happened.
    never = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    detail = f"no answer: {type(error).__name__}"
    if never:
        return Unavailable(503, {"reason": "UNAVAILABLE", "detail": detail})
    return OutcomeUnknown(504, {"reason": "OUTCOME_UNKNOWN", "detail": detail})
