"""What happens around every method of a server: who calls is found out, errors become statuses."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio
from hango.common.v1 import access_pb2

from hango_platform import errors
from hango_platform.errors import HangoError
from hango_platform.rpc import caller as callers
from hango_platform.rpc import status, tokens
from hango_platform.telemetry import trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from google.protobuf.descriptor import ServiceDescriptor

    from hango_platform.rpc.caller import Caller, Principal
    from hango_platform.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

# Anybody may ask whether a server is well and what it serves.
_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/")


class Access:
    """Lets in whom the method's `access` option names, and nobody to a method without one."""

    def __init__(
        self,
        services: Iterable[ServiceDescriptor],
        authenticate: Callable[[str], Awaitable[Principal]],
        internal: tokens.Tokens,
    ) -> None:
        self._rules = {
            f"/{service.full_name}/{method.name}": method.GetOptions().Extensions[access_pb2.access]
            for service in services
            for method in service.methods
        }
        self._authenticate = authenticate
        self._internal = internal

    async def check(self, method: str, metadata: dict[str, str]) -> Caller:
        """The caller. Raises Unauthenticated or Forbidden."""
        caller = await self._identify(metadata)
        rule = self._rules.get(method)
        if rule is None or self._kind(caller) not in rule.callers:
            raise errors.Forbidden
        if caller.principal is not None and caller.principal.role < rule.minimum_role:
            raise errors.Forbidden
        if caller.principal is not None and caller.principal.read_only and not rule.reads:
            raise errors.Forbidden(errors.READ_ONLY)
        return caller

    async def _identify(self, metadata: dict[str, str]) -> Caller:
        if token := metadata.get(tokens.HEADER):
            return self._internal.read(token)
        scheme, _, credential = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise errors.Unauthenticated
        return callers.Caller("", await self._authenticate(credential.strip()))

    @staticmethod
    def _kind(caller: Caller) -> int:
        if caller.principal is not None:
            # Only the gateway speaks for users.
            direct = caller.service in ("", "gateway")
            return access_pb2.CALLER_USER if direct else access_pb2.CALLER_UNSPECIFIED
        name = f"CALLER_{caller.service.upper()}"
        return access_pb2.Caller.Value(name) if name in access_pb2.Caller.keys() else 0  # noqa: SIM118


class Around(aio.ServerInterceptor):
    """The one interceptor: trace context, access, errors as statuses, a count of answers."""

    def __init__(self, access: Access, metrics: Metrics) -> None:
        self._access = access
        self._metrics = metrics

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of this method."""
        method = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None or method.startswith(_OPEN):
            return handler
        metadata = {
            k: v for k, v in handler_call_details.invocation_metadata or () if isinstance(v, str)
        }
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, method, metadata),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(handler.unary_unary, method, metadata),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _unary(self, behaviour: Any, method: str, metadata: dict[str, str]) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                await self._enter(method, metadata)
                answer = await behaviour(request, context)
            except (Exception, asyncio.CancelledError) as error:
                await self._fail(method, error, context)
                raise
            self._metrics.rpcs.labels(method, "OK").inc()
            return answer

        return call

    def _stream(self, behaviour: Any, method: str, metadata: dict[str, str]) -> Any:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                await self._enter(method, metadata)
                async for answer in behaviour(request, context):
                    yield answer
            except (Exception, asyncio.CancelledError) as error:
                await self._fail(method, error, context)
                raise
            self._metrics.rpcs.labels(method, "OK").inc()

        return call

    async def _enter(self, method: str, metadata: dict[str, str]) -> None:
        trace.continue_from(metadata.get("traceparent"))

        async def again() -> Caller:
            return await self._access.check(method, metadata)

        callers.become(await again(), again)

    async def _fail(self, method: str, error: BaseException, context: Any) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._metrics.rpcs.labels(method, "CANCELLED").inc()
            return
        if not isinstance(error, HangoError):
            log.error("unexpected error", exc_info=error, extra={"method": method})
            error = errors.Internal("the service failed; its log says why")
        self._metrics.rpcs.labels(method, error.reason).inc()
        await context.abort_with_status(status.to_status(error))
