"""The REST API, for the commands that act for a person."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx
from hango_platform.ids import new_id
from httpx_sse import SSEError, connect_sse

from hango_cli.errors import Problem, Unreachable

_TIMEOUT = httpx.Timeout(40.0, connect=5.0)  # POST /v1/runs?wait=30s answers late on purpose
_STREAM_TIMEOUT = httpx.Timeout(45.0, connect=5.0)  # a comment comes every 15 s
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_AGAIN = frozenset({502, 503, 504})
_PAUSES = (0.2, 0.5, 1.0, 2.0)
_STREAM_PATIENCE = 60.0


@dataclass(frozen=True)
class Answer:
    """What the server said. `text` has every digit as it came; `data` is for showing."""

    status: int
    text: str
    data: Any


@dataclass(frozen=True)
class Event:
    """One server-sent event; `text` is its JSON as it came."""

    id: str
    name: str
    text: str

    @property
    def data(self) -> Any:
        """What the event says."""
        return json.loads(self.text)


class Client:
    """Calls the API as one user.

    `patience` is for how many seconds a call that got no answer, or that a service could not take
    just now, is repeated. That is safe for reads, for PUT, and for POST to runs, cancel and
    approvals, since each POST carries an idempotency key that its repetitions share.
    """

    def __init__(self, url: str, api_key: str, *, patience: float = 0.0) -> None:
        try:
            base = httpx.URL(url.rstrip("/"))
        except httpx.InvalidURL as error:
            message = f"{url} is not a URL: {error}"
            raise Unreachable(message) from None
        self._http = httpx.Client(
            base_url=base,
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=_TIMEOUT,
            trust_env=base.host not in _LOOPBACK,  # no proxy leads to our own host
        )
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **query: object) -> Answer:
        """GET; parameters that are None are left out. Raises Problem or Unreachable."""
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        """Send these very bytes as JSON. Raises Problem or Unreachable."""
        headers = {"content-type": "application/json"} if body is not None else {}
        if method == "POST":
            headers["idempotency-key"] = new_id()
        parameters = {k: str(v) for k, v in (query or {}).items() if v is not None}
        request = self._http.build_request(
            method, path, content=body, headers=headers, params=parameters
        )
        deadline = time.monotonic() + self._patience
        for pause in _pauses():
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                if time.monotonic() + pause > deadline:
                    raise _unreachable(self._http.base_url, error) from None
            else:
                if not _worth_repeating(response) or time.monotonic() + pause > deadline:
                    return _answer(response)
            time.sleep(pause)
        raise AssertionError  # the pauses never end

    def lines(self, path: str, **query: object) -> Iterator[str]:
        """The lines of a long answer, as they come. Raises Problem or Unreachable."""
        parameters = {k: str(v) for k, v in query.items() if v is not None}
        try:
            with self._http.stream("GET", path, params=parameters) as response:
                if not response.is_success:
                    response.read()
                    raise Problem(response.status_code, _document(response))
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise _unreachable(self._http.base_url, error) from None

    def events(self, path: str) -> Iterator[Event]:
        """The events of a stream to its end, over as many connections as it takes.

        Raises Problem, or Unreachable after a minute without a connection.
        """
        last, lost = "", time.monotonic()
        pauses = _pauses()
        while True:
            failure: Exception | None = None
            try:
                for event in self._connection(path, last):
                    yield event
                    last, pauses = event.id or last, _pauses()
            except _Ended:
                return
            except (httpx.TransportError, SSEError, Problem) as error:
                if isinstance(error, Problem) and error.status not in _AGAIN:
                    raise
                failure = error
            if failure is None:
                lost = time.monotonic()
            elif time.monotonic() > lost + _STREAM_PATIENCE:
                raise _unreachable(self._http.base_url, failure) from None
            time.sleep(next(pauses))

    def _connection(self, path: str, last: str) -> Iterator[Event]:
        headers = {"last-event-id": last} if last else {}
        with connect_sse(
            self._http, "GET", path, headers=headers, timeout=_STREAM_TIMEOUT
        ) as source:
            if source.response.status_code == httpx.codes.NO_CONTENT:
                raise _Ended
            if not source.response.is_success:
                source.response.read()
                raise Problem(source.response.status_code, _document(source.response))
            for event in source.iter_sse():
                if event.data:  # `retry` alone is no event
                    yield Event(event.id, event.event, event.data)


class _Ended(Exception):
    """The server says that this stream has no more to come."""


def _pauses() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]


def _worth_repeating(response: httpx.Response) -> bool:
    if response.status_code in _AGAIN:
        return True
    return response.status_code == httpx.codes.CONFLICT and (
        _document(response).get("reason") == "IDEMPOTENCY_IN_FLIGHT"
    )


def _answer(response: httpx.Response) -> Answer:
    if not response.is_success:
        raise Problem(response.status_code, _document(response))
    try:
        return Answer(
            response.status_code, response.text, response.json() if response.text else None
        )
    except ValueError:
        raise Problem(response.status_code, {"detail": "the answer is not JSON"}) from None


def _document(response: httpx.Response) -> Mapping[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    return {"title": f"HTTP {response.status_code} {response.reason_phrase}"}


def _unreachable(url: httpx.URL, error: Exception) -> Unreachable:
    return Unreachable(f"{url} cannot be reached: {str(error) or type(error).__name__}")


def to_json(value: Any) -> bytes:
    """JSON text; whole numbers of any size stay exact."""
    return json.dumps(value, ensure_ascii=False).encode()
