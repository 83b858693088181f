"""The two services that own what the gateway shows, as their stubs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2_grpc
from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango.runs.v1 import history_pb2_grpc, runs_pb2_grpc
from hango_platform import faults
from hango_platform.errors import OutcomeUnknown, Unavailable
from hango_platform.rpc.caller import Principal
from hango_platform.rpc.channel import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from hango_platform.rpc.channel import Channel

_AUTHENTICATE_TIMEOUT = 2.0


class Owner:
    """One of them, asked on behalf of a user. Raises the errors that it raised."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def read(
        self, method: Any, request: Any, by: Principal | None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> Any:
        """Ask for something. A deadline that passed changed nothing: Unavailable."""
        try:
            return await self._channel.call(method, request, principal=by, timeout=timeout)
        except OutcomeUnknown:
            raise Unavailable from None

    async def write(self, method: Any, request: Any, by: Principal) -> Any:
        """Have something done. Raises OutcomeUnknown where the deadline passed in flight."""
        answer = await self._channel.call(method, request, principal=by)
        if faults.ACTIVE:
            await faults.reach("after_write")
        return answer


class Owners:
    """A and R, and the stubs of what they serve to users."""

    def __init__(self, approvals: Channel, runner: Channel) -> None:
        self.approvals = Owner(approvals)
        self.runner = Owner(runner)
        self.decisions = approvals_pb2_grpc.ApprovalsServiceStub(approvals.raw)
        self.audit = approvals_pb2_grpc.AuditServiceStub(approvals.raw)
        self.directory = identity_pb2_grpc.DirectoryServiceStub(approvals.raw)
        self.agents = runs_pb2_grpc.AgentsServiceStub(runner.raw)
        self.runs = runs_pb2_grpc.RunsServiceStub(runner.raw)
        self.threads = history_pb2_grpc.ThreadsServiceStub(runner.raw)
        self.checkpoints = history_pb2_grpc.CheckpointsServiceStub(runner.raw)
        self._identity = identity_pb2_grpc.IdentityServiceStub(approvals.raw)

    async def authenticate(self, credential: str) -> Principal:
        """Whose credential this is. Raises Unauthenticated, Unavailable."""
        request = identity_pb2.AuthenticateRequest(credential=credential)
        answer = await self.approvals.read(
            self._identity.Authenticate, request, None, timeout=_AUTHENTICATE_TIMEOUT
        )
        return Principal.read(answer.principal)
