"""Channels to other services: every call carries an internal token and the trace, and raises
typed errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import aio

from hango_platform.rpc import status, tokens
from hango_platform.rpc.server import MAX_MESSAGE
from hango_platform.telemetry import trace

if TYPE_CHECKING:
    from hango_platform.rpc.caller import Principal
    from hango_platform.rpc.tls import Tls
    from hango_platform.rpc.tokens import Tokens

DEFAULT_TIMEOUT = 5.0

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_metadata_size", 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 30_000),
]


class Channel:
    """A channel to one service, encrypted where there are certificates. `calls` counts what went
    over it.
    """

    def __init__(self, addr: str, internal: Tokens, tls: Tls | None = None) -> None:
        self.raw: Any = (
            aio.insecure_channel(addr, options=_OPTIONS)
            if tls is None
            else aio.secure_channel(addr, tls.for_channel(), options=_OPTIONS)
        )
        self._internal = internal
        self.calls = 0

    async def call(
        self,
        method: Any,
        request: Any,
        *,
        principal: Principal | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Any:
        """Call a stub's method, as this service or for a user. Raises HangoError, always."""
        self.calls += 1
        metadata = (
            (tokens.HEADER, self._internal.make(principal)),
            ("traceparent", trace.traceparent()),
        )
        try:
            return await method(request, metadata=metadata, timeout=timeout)
        except aio.AioRpcError as error:
            raise status.from_rpc_error(error) from None

    async def close(self) -> None:
        """Close it."""
        await self.raw.close()
