"""The client of NATS and JetStream that the services share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import nats
from nats import errors as nats_errors
from nats.js import api
from nats.js import errors as js_errors

from hango_platform import faults
from hango_platform.bus.subjects import STREAM, STREAM_SUBJECTS
from hango_platform.ids import jitter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_DAY = 24 * 3600.0


class BusUnavailable(Exception):
    """NATS cannot be reached, or does not answer. Nothing is known about what was sent."""


class Bus:
    """One connection, kept up for ever. A service starts and works without it, a little slower."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._client: Any = None
        self._js: Any = None
        self._up = asyncio.Event()
        self._subscriptions: list[tuple[str, Callable[[str, bytes], None], str]] = []
        self._reconnected: list[Callable[[], object]] = []

    @property
    def connected(self) -> bool:
        """Whether the connection is up now."""
        return self._client is not None and bool(self._client.is_connected) and self._up.is_set()

    async def run(self) -> None:
        """Connect, and see that the stream is there after each reconnect; for ever."""
        while True:
            try:
                self._client = await nats.connect(
                    self._url,
                    name=self._name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=2,
                    ping_interval=5,
                    max_outstanding_pings=2,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnect,
                    reconnected_cb=self._on_connect,
                )
                break
            except (OSError, nats_errors.Error, TimeoutError) as error:
                log.warning("NATS cannot be reached", extra={"error": type(error).__name__})
                await asyncio.sleep(jitter())
        self._js = self._client.jetstream(timeout=3)
        for subject, callback, queue in self._subscriptions:
            await self._subscribe(subject, callback, queue)
        await self._on_connect()
        try:
            await asyncio.Event().wait()
        finally:
            await self._client.close()

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> None:
        """Publish to the stream and wait for its acknowledgement. Raises BusUnavailable."""
        if not self.connected:
            msg = "not connected"
            raise BusUnavailable(msg)
        try:
            await self._js.publish(subject, payload, stream=STREAM, headers=dict(headers))
            if faults.ACTIVE:
                await faults.reach("after_publish")
        except (js_errors.NoStreamResponseError, js_errors.NotFoundError) as error:
            await self._ensure_stream()
            raise BusUnavailable(str(error)) from error
        except (OSError, nats_errors.Error, js_errors.Error, TimeoutError) as error:
            raise BusUnavailable(type(error).__name__) from error

    def hint(self, subject: str, payload: bytes = b"") -> None:
        """Send without waiting or keeping; dropped where the connection is down."""
        if self.connected:
            task = asyncio.ensure_future(self._send(subject, payload))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())

    async def _send(self, subject: str, payload: bytes) -> None:
        try:
            await self._client.publish(subject, payload)
        except (OSError, nats_errors.Error) as error:
            log.debug("hint dropped", extra={"error": type(error).__name__})

    async def subscribe(
        self, subject: str, callback: Callable[[str, bytes], None], *, queue: str = ""
    ) -> None:
        """Call back with subject and payload of each message that passes by, as long as the bus
        runs.

        With a `queue` each message comes to one of all who named that queue. What passes while the
        connection is down is missed: a hint must never be the only way to learn something.
        """
        self._subscriptions.append((subject, callback, queue))
        if self._js is not None:
            await self._subscribe(subject, callback, queue)

    async def _subscribe(
        self, subject: str, callback: Callable[[str, bytes], None], queue: str
    ) -> None:
        async def deliver(message: Any) -> None:
            callback(message.subject, message.data)

        await self._client.subscribe(subject, queue=queue, cb=deliver)

    async def _ensure_stream(self) -> None:
        config = api.StreamConfig(
            name=STREAM,
            subjects=[STREAM_SUBJECTS],
            max_age=7 * _DAY,
            duplicate_window=120,
            discard=api.DiscardPolicy.OLD,
            max_bytes=1024 * 1024 * 1024,
        )
        try:
            await self._js.add_stream(config)
        except (OSError, nats_errors.Error, js_errors.Error, TimeoutError) as error:
            log.warning("the stream cannot be made sure of", extra={"error": type(error).__name__})

    def on_connect(self, hook: Callable[[], object]) -> None:
        """Call this after every (re)connect: what was missed meanwhile must be found by other
        means.
        """
        self._reconnected.append(hook)

    async def _on_connect(self) -> None:
        await self._ensure_stream()
        self._up.set()
        for hook in self._reconnected:
            hook()

    async def _on_disconnect(self) -> None:
        self._up.clear()

    async def _on_error(self, error: Exception) -> None:
        log.debug("NATS", extra={"error": type(error).__name__})
