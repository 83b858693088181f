"""The approvals service in this process, and clients of it."""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
from google.protobuf.message import Message
from grpc import aio
from hango.approvals.v1 import approvals_pb2 as pb
from hango.approvals.v1 import approvals_pb2_grpc as grpc_pb
from hango.common.v1 import access_pb2, types_pb2
from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango_approvals.app import start
from hango_approvals.settings import Settings
from hango_platform import ids
from hango_platform.lifecycle import Tasks
from hango_platform.postgres.migrate import Migrator
from hango_platform.rpc import status
from hango_platform.rpc.caller import Principal, Role
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens
from pydantic import SecretStr

from tests.support.runs import RunStates, serving

INTERNAL_KEY = "k" * 40
ALL = ("approve", "edit", "reject", "respond")
PAY_SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["to", "amount"],
    "additionalProperties": False,
}
PAY_RULE = {
    "source": "user",
    "entry": "pay",
    "allowed_decisions": list(ALL),
    "when": {"arg": "amount", "gt": 100},
}


async def migrate(dsn: str) -> None:
    """Bring an empty database to the service's schema."""
    await Migrator(dsn, "hango_approvals.postgres").up()


@dataclass(frozen=True)
class Tenant:
    """A tenant of a test, with one user of each kind. `secrets` are their API keys."""

    id: str
    name: str
    users: dict[str, Principal]
    secrets: dict[str, str]

    def __getitem__(self, name: str) -> Principal:
        return self.users[name]


@dataclass
class Approvals:
    """A running service: its addresses, and channels as each of its callers."""

    dsn: str
    addr: str
    metrics: str
    runs: RunStates
    channels: dict[str, Channel] = field(default_factory=dict)

    async def call(
        self,
        caller: str,
        stub: type,
        method: str,
        request: Message,
        principal: Principal | None = None,
    ) -> Any:
        """Call a method as a service, or as a user through the gateway. Raises HangoError."""
        channel = self.channels[caller]
        bound = getattr(stub(channel.raw), method)
        return await channel.call(bound, request, principal=principal, timeout=30)

    async def as_user(self, by: Principal, method: str, request: Message) -> Any:
        """Call a method of the approvals, audit or directory service for a user."""
        stub = next(
            s
            for s in (
                grpc_pb.ApprovalsServiceStub,
                grpc_pb.AuditServiceStub,
                identity_pb2_grpc.DirectoryServiceStub,
            )
            if hasattr(s(self.channels["gateway"].raw), method)
        )
        return await self.call("gateway", stub, method, request, by)

    async def direct(self, secret: str, stub: type, method: str, request: Message) -> Any:
        """Call a method as a client does that holds an API key and knows no gateway."""
        async with aio.insecure_channel(self.addr) as channel:
            bound = getattr(stub(channel), method)
            metadata = (("authorization", f"Bearer {secret}"),) if secret else ()
            try:
                return await bound(request, metadata=metadata, timeout=10)
            except aio.AioRpcError as error:
                raise status.from_rpc_error(error) from None

    async def decide(
        self, by: Principal, run_id: str, decisions: Sequence[pb.Decision], **more: Any
    ) -> pb.DecideApprovalsResponse:
        """Decide for a user."""
        request = pb.DecideApprovalsRequest(run_id=run_id, decisions=decisions, **more)
        answer: pb.DecideApprovalsResponse = await self.as_user(by, "DecideApprovals", request)
        return answer

    async def runner(self, method: str, request: Message) -> Any:
        """Call a method of the suspensions service as the runner."""
        return await self.call("runner", grpc_pb.SuspensionsServiceStub, method, request)

    async def sweep(self, method: str, request: Message) -> Any:
        """Call a maintenance method as the sweeper."""
        stub = grpc_pb.ApprovalsMaintenanceServiceStub
        return await self.call("sweeper", stub, method, request)

    async def tenant(self, name: str | None = None) -> Tenant:
        """A new tenant with an owner, an admin and two members."""
        slug = name or f"t-{ids.new_id()}"
        wanted = {
            "owner": Role.OWNER,
            "admin": Role.ADMIN,
            "member": Role.MEMBER,
            "other": Role.MEMBER,
        }
        secrets = {who: ids.new_secret("hk") for who in wanted}
        request = identity_pb2.ProvisionTenantRequest(
            name=slug,
            users=[
                identity_pb2.ProvisionedUser(
                    name=who, role=access_pb2.Role.ValueType(int(role)), api_key_secret=secrets[who]
                )
                for who, role in wanted.items()
            ],
        )
        stub = identity_pb2_grpc.ProvisioningServiceStub
        made = await self.call("operator", stub, "ProvisionTenant", request)
        users = {
            u.name: Principal(made.tenant.id, slug, u.id, Role(u.role), u.name) for u in made.users
        }
        return Tenant(made.tenant.id, slug, users, secrets)

    async def open(
        self,
        tenant: Tenant,
        calls: Sequence[pb.PendingCall],
        *,
        by: str = "member",
        run_id: str | None = None,
        gen: int = 1,
    ) -> "Pause":
        """Open a suspension of a run of this user."""
        run_id = run_id or ids.new_id()
        request = pb.OpenSuspensionRequest(
            suspension_id=ids.suspension_id(run_id, gen),
            tenant_id=tenant.id,
            run_id=run_id,
            gen=gen,
            turn=0,
            requested_by=tenant[by].user_id,
            agent="bot",
            agent_version=1,
            batch_sha256=hashlib.sha256(
                b"".join(c.SerializeToString(deterministic=True) for c in calls)
            ).digest(),
            calls=calls,
        )
        answer = await self.runner("OpenSuspension", request)
        return Pause(run_id, request.suspension_id, request, answer)

    async def execute(self, sql: str, *args: object) -> None:
        """Run a statement as the database's owner, past all policies."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(sql, *args)
        finally:
            await connection.close()

    async def rows(self, sql: str, *args: object) -> list[Any]:
        """Rows as the database's owner sees them."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return list(await connection.fetch(sql, *args))
        finally:
            await connection.close()


@dataclass(frozen=True)
class Pause:
    """A suspension that was opened."""

    run_id: str
    id: str
    request: pb.OpenSuspensionRequest
    answer: pb.OpenSuspensionResponse

    @property
    def approval_ids(self) -> list[str]:
        """The approvals' ids, in call order."""
        return [a.approval_id for a in self.answer.approvals]


def pending(
    tool_call_id: str = "c1",
    arguments: bytes = b'{"to":"ann","amount":150}',
    *,
    index: int = 0,
    allowed: Sequence[str] = ALL,
    **more: Any,
) -> pb.PendingCall:
    """A call of `pay` that a rule stopped."""
    defaults: dict[str, Any] = {
        "tool_name": "pay",
        "kind": types_pb2.APPROVAL_KIND_TOOL_CALL,
        "rule_json": json.dumps(PAY_RULE).encode(),
        "parameters_json": json.dumps(PAY_SCHEMA).encode(),
    }
    return pb.PendingCall(
        tool_call_id=tool_call_id,
        arguments_json=arguments,
        call_index=index,
        allowed_decisions=[kind(a) for a in allowed],
        **{**defaults, **more},
    )


def question(tool_call_id: str = "q1", *, index: int = 0, schema: Any = None) -> pb.PendingCall:
    """A question to a person."""
    return pending(
        tool_call_id,
        b'{"question":"?"}',
        index=index,
        allowed=("respond", "reject"),
        tool_name="ask_human",
        kind=types_pb2.APPROVAL_KIND_INPUT,
        rule_json=b"",
        input_json=json.dumps({"payload": {"question": "?"}, "schema": schema}).encode(),
    )


def kind(name: str) -> types_pb2.DecisionKind.ValueType:
    """A kind of decision by its API name."""
    return types_pb2.DecisionKind.Value(f"DECISION_KIND_{name.upper()}")


def decision(tool_call_id: str = "c1", what: str = "approve", **more: Any) -> pb.Decision:
    """A decision on a call."""
    return pb.Decision(tool_call_id=tool_call_id, decision=kind(what), **more)


@asynccontextmanager
async def running(dsn: str, nats_url: str, **settings: Any) -> AsyncIterator[Approvals]:
    """The service, started by its own composition root, with a runner beside it."""
    runs = RunStates()
    tasks = Tasks()
    async with AsyncExitStack() as stack:
        runner_addr = await stack.enter_async_context(serving(runs))
        given = {
            "internal_key": SecretStr(INTERNAL_KEY),
            "nats_url": SecretStr(nats_url),
            "approvals_dsn": SecretStr(dsn),
            "approvals_addr": "127.0.0.1:0",
            "runner_addr": runner_addr,
            "approval_ttl": timedelta(hours=1),
            "drain": timedelta(seconds=1),
        }
        bound = await start(Settings(**{**given, **settings}), stack, tasks)
        service = Approvals(dsn, bound["grpc"], bound["metrics"], runs)
        for name in ("gateway", "runner", "sweeper", "operator"):
            service.channels[name] = Channel(service.addr, Tokens(INTERNAL_KEY, name))
            stack.push_async_callback(service.channels[name].close)
        yield service
        assert not tasks.failed.done(), tasks.failed.result()
