"""Whether a service answers."""

import asyncio
import http.client
from typing import Any

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hango_cli.stack.errors import StackError
from hango_cli.stack.plan import GRPC, Plan

_PATIENCE = 30.0
_POLL = 0.02
_ANSWER = 2.0


async def await_healthy(service: str, plan: Plan) -> None:
    """Wait until the service says that it is ready. Raises StackError after 30 seconds."""
    try:
        async with asyncio.timeout(_PATIENCE):
            if service in GRPC:
                await _await_grpc(plan.grpc[service])
            elif service == "gateway":
                await _await_http(plan.url)
    except TimeoutError:
        message = f"the {service} service is up but does not become ready; see its log"
        raise StackError(message) from None


async def _await_grpc(address: str) -> None:
    async with aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_ANSWER)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            except grpc.RpcError:
                pass  # bound, but not serving yet
            await asyncio.sleep(_POLL)


async def _await_http(url: str) -> None:
    address = url.removeprefix("http://")
    while True:
        if await asyncio.to_thread(_answers_ok, address, "/readyz"):
            return
        await asyncio.sleep(_POLL)


def _answers_ok(address: str, path: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=_ANSWER)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
