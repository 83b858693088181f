"""Server-sent events: the story of one run by cursor, and a tenant's events as they happen.

Nothing is kept for a client but, on a tenant's stream, a bounded buffer. The process has one
subscription for wake-ups and one for events, however many clients there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from hango.approvals.v1 import approvals_pb2
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2
from hango_platform import clock
from hango_platform.errors import Forbidden, HangoError, InvalidRequest, NotFound, Unauthenticated
from sse_starlette import ServerSentEvent

from hango_gateway.mapping import approvals, runs, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from hango_platform.rpc.caller import Principal
    from hango_platform.rpc.credentials import CachedCredentials
    from hango_platform.telemetry.metrics import Metrics

    from hango_gateway.mapping.values import Json
    from hango_gateway.owners import Owners

log = logging.getLogger(__name__)

RETRY = ServerSentEvent(retry=2000, sep="\n").encode()
_TICK = 2.0
_PAGE = 200
_BUFFER = 256
# The client may not see this (any more); nothing that time would mend.
_FINAL = (Unauthenticated, Forbidden, NotFound, InvalidRequest)


def _frame(kind: str, data: bytes, number: int | None = None) -> bytes:
    """One event. JSON text of several lines becomes several lines of data."""
    return ServerSentEvent(
        data.decode(), event=kind, id=None if number is None else str(number), sep="\n"
    ).encode()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


class _Listener:
    """One client of one run: what woke it, and what was said since it last looked."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.grown = True  # something may have happened since the first read
        self._said: deque[bytes] = deque(maxlen=_BUFFER)

    def grow(self) -> None:
        """The story has grown."""
        self.grown = True
        self.wake.set()

    def say(self, data: bytes) -> None:
        """A piece of an answer; a client that is too slow misses the oldest."""
        self._said.append(data)
        self.wake.set()

    async def listen(self, until: float) -> list[bytes]:
        """What was said, as soon as there is any; nothing where the story grows or time is up."""
        while not self._said and not self.grown and (left := until - clock.monotonic()) > 0:
            self.wake.clear()
            await _wait(self.wake, left)
        said = [_frame("model.delta", data) for data in self._said]
        self._said.clear()
        return said


class RunStreams:
    """Streams of runs. Replay and live are one path: wait for a wake-up, read by cursor.

    What a model says meanwhile is passed on as it comes: it has no number and is never replayed.
    """

    def __init__(self, owners: Owners, credentials: CachedCredentials, metrics: Metrics) -> None:
        self._owners = owners
        self._credentials = credentials
        self._open = metrics.streams.labels("run")
        self._waiting: dict[str, set[_Listener]] = defaultdict(set)
        self._stopping = False

    def hear(self, subject: str, _payload: bytes) -> None:
        """A run's story has grown; the subject ends with its id."""
        for listener in self._waiting.get(subject.rpartition(".")[2], ()):
            listener.grow()

    def hear_delta(self, subject: str, payload: bytes) -> None:
        """A model has said something; the subject ends with the run's id."""
        for listener in self._waiting.get(subject.rpartition(".")[2], ()):
            listener.say(payload)

    def stop(self) -> None:
        """End every stream."""
        self._stopping = True
        for listeners in self._waiting.values():
            for listener in listeners:
                listener.grow()

    async def read(self, run_id: str, after: int, by: Principal) -> Any:
        """What comes after a number (a ListRunEventsResponse). Raises NotFound, Unavailable."""
        request = runs_pb2.ListRunEventsRequest(run_id=run_id, after=after, page_size=_PAGE)
        return await self._owners.runner.read(self._owners.runs.ListRunEvents, request, by)

    async def follow(
        self, run_id: str, after: int, credential: str, found: Any
    ) -> AsyncIterator[bytes]:
        """The story after a number, beginning with what `read` has found, to the run's end.

        Stays open while an owner is away. Ends early where the credential ends.
        """
        with self._listening(run_id) as listener, self._open.track_inprogress():
            yield RETRY
            while True:
                for event in found.events:
                    yield _frame(event.type, event.data_json, event.seq)
                    after = event.seq
                if found.finished:
                    return
                until = clock.monotonic() + (_TICK if len(found.events) < _PAGE else 0)
                while said := await listener.listen(until):
                    for frame in said:
                        yield frame
                if self._stopping:
                    return
                listener.grown = False
                try:
                    principal = await self._credentials(credential)
                    found = await self.read(run_id, after, principal)
                except _FINAL:
                    return
                except HangoError as error:
                    log.info("a stream waits for an owner", extra={"reason": error.reason})
                    found = runs_pb2.ListRunEventsResponse()

    @contextmanager
    def _listening(self, run_id: str) -> Iterator[_Listener]:
        listener = _Listener()
        self._waiting[run_id].add(listener)
        try:
            yield listener
        finally:
            self._waiting[run_id].discard(listener)
            if not self._waiting[run_id]:
                del self._waiting[run_id]


@dataclass(frozen=True, slots=True)
class _Happening:
    """An event of a tenant, as a hint: what it means is asked of its owner."""

    kind: str
    run_id: str
    approval_id: str
    at: str | None


class _Buffer:
    """What has happened since one client last took something."""

    def __init__(self) -> None:
        self._kept: deque[_Happening] = deque()
        self._changed = asyncio.Event()
        self.ended = False

    def put(self, happening: _Happening) -> None:
        """Keep it. A client that is too slow is sent away: it will refetch."""
        self._kept.append(happening)
        if len(self._kept) > _BUFFER:
            self.end()
        self._changed.set()

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    async def take(self) -> _Happening | None:
        """The next one; None where nothing happened for a while."""
        if not self._kept:
            self._changed.clear()
            await _wait(self._changed, _TICK)
        return self._kept.popleft() if self._kept else None


class TenantStreams:
    """Streams of tenants, for inboxes: live only."""

    def __init__(self, owners: Owners, credentials: CachedCredentials, metrics: Metrics) -> None:
        self._owners = owners
        self._credentials = credentials
        self._open = metrics.streams.labels("tenant")
        self._buffers: dict[str, set[_Buffer]] = defaultdict(set)
        self._heard_before = False

    def connected(self) -> None:
        """The bus is there. If it was before, events may have been missed since: end the streams,
        so that the clients come back and refetch.
        """
        if self._heard_before:
            self.stop()
        self._heard_before = True

    def hear(self, subject: str, payload: bytes) -> None:
        """An event of a tenant (`hango.<tenant>.<event>.v1`)."""
        _, tenant, *kind, _ = subject.split(".")
        buffers = self._buffers.get(tenant)
        if buffers and (happening := _happening(".".join(kind), payload)) is not None:
            for buffer in tuple(buffers):
                buffer.put(happening)

    def stop(self) -> None:
        """End every stream."""
        for buffers in self._buffers.values():
            for buffer in buffers:
                buffer.end()

    async def follow(self, credential: str, principal: Principal) -> AsyncIterator[bytes]:
        """What happens in the caller's tenant from now on, while he may see all of it."""
        with self._listening(principal.tenant) as buffer, self._open.track_inprogress():
            yield RETRY
            while not buffer.ended:
                happening = await buffer.take()
                if (data := await self._data(happening, credential, buffer)) is None:
                    return
                if happening is not None and data:
                    yield _frame(happening.kind, orjson.dumps(data))

    async def _data(
        self, happening: _Happening | None, credential: str, buffer: _Buffer
    ) -> Json | None:
        """The data of an event; empty for none, None where the stream must end."""
        while not buffer.ended:
            try:
                principal = await self._credentials(credential)
                if not principal.role.may_decide:
                    return None
                return {} if happening is None else await self._ask(happening, principal)
            except Unauthenticated:
                return None
            except _FINAL:
                return {}  # it went away meanwhile
            except HangoError:
                await asyncio.sleep(_TICK / 4)
        return None

    async def _ask(self, happening: _Happening, by: Principal) -> Json:
        owners = self._owners
        if happening.kind == "run.finished":
            request = runs_pb2.GetRunRequest(run_id=happening.run_id)
            run = (await owners.runner.read(owners.runs.GetRun, request, by)).run
            return {
                "run_id": run.id,
                "at": happening.at,
                "state": values.word(types_pb2.RunState, run.state),
                "failure": runs.failure(run),
            }
        wanted = approvals_pb2.GetApprovalRequest(approval_id=happening.approval_id)
        answer = await owners.approvals.read(owners.decisions.GetApproval, wanted, by)
        return approvals.event(happening.kind, happening.at, answer.approval)

    @contextmanager
    def _listening(self, tenant: str) -> Iterator[_Buffer]:
        buffer = _Buffer()
        self._buffers[tenant].add(buffer)
        try:
            yield buffer
        finally:
            self._buffers[tenant].discard(buffer)
            if not self._buffers[tenant]:
                del self._buffers[tenant]


def _happening(kind: str, payload: bytes) -> _Happening | None:
    """None for what the stream does not tell: hints between services, and what is no event."""
    if not kind.startswith("approval.") and kind != "run.finished":
        return None
    try:
        body = orjson.loads(payload)
        return _Happening(kind, body["run_id"], body.get("approval_id", ""), body.get("at"))
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        log.warning("an event cannot be read", extra={"kind": kind})
        return None
