"""A gRPC server with health, reflection, access rules and typed errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from hango_platform.rpc.interceptors import Access, Around

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from google.protobuf.descriptor import ServiceDescriptor

    from hango_platform.rpc.caller import Principal
    from hango_platform.rpc.tls import Tls
    from hango_platform.rpc.tokens import Tokens
    from hango_platform.telemetry.metrics import Metrics

MAX_MESSAGE = 16 * 1024 * 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_metadata_size", 1024 * 1024),  # errors travel in the trailers
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
]


class Server:
    """Serves these services on one port.

    `services` pairs each descriptor with a function that adds its servicer to the server.
    """

    def __init__(
        self,
        services: Sequence[tuple[ServiceDescriptor, Callable[[Any], None]]],
        *,
        authenticate: Callable[[str], Awaitable[Principal]],
        internal: Tokens,
        metrics: Metrics,
    ) -> None:
        descriptors = [d for d, _ in services]
        around = Around(Access(descriptors, authenticate, internal), metrics)
        self._server = aio.server(interceptors=[around], options=_OPTIONS)
        self._names = [d.full_name for d in descriptors]
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server
        )
        for _, add in services:
            add(self._server)

    async def start(self, addr: str, tls: Tls | None = None) -> str:
        """Bind and serve, not ready yet; the address with its real port. Raises RuntimeError where
        it is taken.
        """
        await self.report(ready=False)
        host = addr.rpartition(":")[0]
        if tls is None:
            port = self._server.add_insecure_port(addr)
        else:
            port = self._server.add_secure_port(addr, tls.for_server())
        await self._server.start()
        return f"{host}:{port}"

    async def report(self, *, ready: bool) -> None:
        """Tell health checks whether the service is ready."""
        status = (
            health_pb2.HealthCheckResponse.SERVING
            if ready
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for name in ("", *self._names):
            await self._health.set(name, status)

    async def stop(self, grace: float) -> None:
        """Take no new calls, give those under way `grace` seconds, then end them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)
