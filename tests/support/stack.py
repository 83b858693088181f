"""The services in the test's own process: real PostgreSQL, NATS and gRPC, one event loop."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg
from grpc import aio
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import access_pb2, types_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_approvals import app as approvals_app
from hango_approvals.settings import Settings as ApprovalsSettings
from hango_cli.embedded.ports import choose_port
from hango_gateway import app as gateway_app
from hango_gateway.settings import Settings as GatewaySettings
from hango_platform.lifecycle import Tasks
from hango_platform.postgres.migrate import Migrator
from hango_platform.rpc import status
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens
from hango_runner import app as runner_app
from hango_runner.settings import RunnerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from pathlib import Path

    from tests.support.backend import NatsServer, PostgresServer

USERS = {
    "owner": access_pb2.ROLE_OWNER,
    "admin": access_pb2.ROLE_ADMIN,
    "member": access_pb2.ROLE_MEMBER,
    "other-member": access_pb2.ROLE_MEMBER,
}


@dataclass
class Client:
    """A user over gRPC, as a developer's own program would be. Refusals are the typed errors."""

    key: str
    user_id: str
    approvals: Any
    runner: Any

    async def call(self, method: Any, request: Any, timeout: float = 20) -> Any:
        """Call a stub's method as this user."""
        try:
            return await method(
                request, metadata=(("authorization", f"Bearer {self.key}"),), timeout=timeout
            )
        except aio.AioRpcError as error:
            raise status.from_rpc_error(error) from None

    async def save_agent(self, spec: Mapping[str, Any]) -> Any:
        """Save an agent; the agent."""
        stub = rgrpc.AgentsServiceStub(self.runner)
        request = rpb.SaveAgentRequest(name=spec["name"], spec_json=json.dumps(spec).encode())
        return (await self.call(stub.SaveAgent, request)).agent

    async def start(self, agent: str, text: str = "go", *, wait: float = 20, **more: Any) -> Any:
        """Start a run; the run once it is paused or over."""
        stub = rgrpc.RunsServiceStub(self.runner)
        request = rpb.StartRunRequest(agent=agent, input_json=json.dumps(text).encode(), **more)
        request.wait.FromNanoseconds(int(wait * 1e9))
        return (await self.call(stub.StartRun, request, timeout=wait + 5)).run

    async def run(self, run_id: str, *, wait: float = 0) -> Any:
        """The run; with `wait` once it is paused or over."""
        stub = rgrpc.RunsServiceStub(self.runner)
        request = rpb.GetRunRequest(run_id=run_id)
        request.wait.FromNanoseconds(int(wait * 1e9))
        return (await self.call(stub.GetRun, request, timeout=wait + 5)).run

    async def finished(self, run_id: str, *, wait: float = 20) -> Any:
        """The run once it is over: a pause that is on its way to its resume does not count."""
        async for _ in self.watch(run_id, wait=wait):
            pass
        return await self.run(run_id)

    async def watch(self, run_id: str, *, wait: float = 20) -> AsyncGenerator[Any, None]:
        """The run's story from its start, then live, to its end."""
        stub = rgrpc.RunsServiceStub(self.runner)
        call = stub.WatchRunEvents(
            rpb.WatchRunEventsRequest(run_id=run_id),
            metadata=(("authorization", f"Bearer {self.key}"),),
            timeout=wait,
        )
        try:
            async for answer in call:
                yield answer.event
        except aio.AioRpcError as error:
            raise status.from_rpc_error(error) from None
        finally:
            call.cancel()

    async def until(self, run_id: str, kind: str, *, times: int = 1, wait: float = 20) -> Any:
        """The event of the run's story that is the so-many-th of its kind."""
        async with aclosing(self.watch(run_id, wait=wait)) as story:
            async for event in story:
                times -= event.type == kind
                if not times:
                    return event
        msg = f"the run ended without {kind}"
        raise AssertionError(msg)

    async def tools(self) -> dict[str, Any]:
        """The tools that a spec may name, by name."""
        stub = rgrpc.AgentsServiceStub(self.runner)
        answer = await self.call(stub.ListTools, rpb.ListToolsRequest())
        return {t.name: t for t in answer.tools}

    async def runs(self, **more: Any) -> list[Any]:
        """Runs, newest first."""
        stub = rgrpc.RunsServiceStub(self.runner)
        return list((await self.call(stub.ListRuns, rpb.ListRunsRequest(**more))).runs)

    async def cancel(self, run_id: str, **more: Any) -> Any:
        """Cancel a run; the run."""
        stub = rgrpc.RunsServiceStub(self.runner)
        return (await self.call(stub.CancelRun, rpb.CancelRunRequest(run_id=run_id, **more))).run

    async def messages(self, run_id: str) -> list[Any]:
        """The transcript."""
        stub = rgrpc.RunsServiceStub(self.runner)
        request = rpb.ListMessagesRequest(run_id=run_id, page_size=200)
        return list((await self.call(stub.ListMessages, request)).messages)

    async def events(self, run_id: str) -> list[Any]:
        """The story so far."""
        stub = rgrpc.RunsServiceStub(self.runner)
        request = rpb.ListRunEventsRequest(run_id=run_id, page_size=1000)
        return list((await self.call(stub.ListRunEvents, request)).events)

    async def approval_list(self, run_id: str = "", **more: Any) -> list[Any]:
        """Approvals, of a run or of all."""
        stub = agrpc.ApprovalsServiceStub(self.approvals)
        request = apb.ListApprovalsRequest(run_id=run_id, page_size=200, **more)
        return list((await self.call(stub.ListApprovals, request)).approvals)

    async def decide(
        self, run_id: str, *decisions: Mapping[str, Any], timeout: float = 20, **more: Any
    ) -> Any:
        """Decide; each decision is as in REST: `{"tool_call_id": …, "decision": "approve"}`."""
        stub = agrpc.ApprovalsServiceStub(self.approvals)
        request = apb.DecideApprovalsRequest(
            run_id=run_id, decisions=[_decision(d) for d in decisions], **more
        )
        return await self.call(stub.DecideApprovals, request, timeout=timeout)

    async def decide_all(self, run_id: str, decision: str, **more: Any) -> Any:
        """The same decision for every pending call."""
        pending = await self.approval_list(run_id, state=types_pb2.APPROVAL_STATE_PENDING)
        decisions = [{"approval_id": a.id, "decision": decision, **more} for a in pending]
        return await self.decide(run_id, *decisions)

    async def audit(self, **more: Any) -> list[Any]:
        """Audit rows, newest first."""
        stub = agrpc.AuditServiceStub(self.approvals)
        request = apb.ListAuditEventsRequest(page_size=200, **more)
        return list((await self.call(stub.ListAuditEvents, request)).events)


def _decision(given: Mapping[str, Any]) -> apb.Decision:
    kind = str(given.get("decision") or "unspecified").upper()
    made = apb.Decision(
        approval_id=given.get("approval_id", ""),
        tool_call_id=given.get("tool_call_id", ""),
        decision=types_pb2.DecisionKind.Value(f"DECISION_KIND_{kind}"),
        message=given.get("message"),
        tool_name=given.get("tool_name"),
        arguments_sha256=given.get("arguments_sha256"),
    )
    if "args" in given:
        args = given["args"]
        made.args_json = args if isinstance(args, bytes) else json.dumps(args).encode()
    if "value" in given:
        made.value_json = json.dumps(given["value"]).encode()
    return made


@dataclass
class Stack:
    """The running services. `users` are the demo tenant's and, with `b-`, another's."""

    approvals_dsn: str
    runner_dsn: str
    nats_url: str
    internal_key: str
    approvals_addr: str
    runner_addr: str
    tool_servers: Path | None
    overrides: Mapping[str, Any]
    users: dict[str, Client] = field(default_factory=dict)
    parts: dict[str, AsyncExitStack] = field(default_factory=dict)
    tasks: dict[str, Tasks] = field(default_factory=dict)
    http: str = ""

    def _common(self) -> dict[str, Any]:
        return {
            "internal_key": self.internal_key,
            "nats_url": self.nats_url,
            "approvals_addr": self.approvals_addr,
            "runner_addr": self.runner_addr,
            "drain": "3s",
        }

    async def start_approvals(self) -> None:
        """Start A."""
        settings = ApprovalsSettings.model_validate(
            {**self._common(), "approvals_dsn": self.approvals_dsn, **self._own("approvals")}
        )
        await self._start("approvals", approvals_app.start, settings)

    async def start_runner(self) -> None:
        """Start R."""
        settings = RunnerSettings.model_validate(
            {
                **self._common(),
                "runner_dsn": self.runner_dsn,
                "tool_servers": self.tool_servers,
                **self._own("runner"),
            }
        )
        await self._start("runner", runner_app.start, settings)

    async def start_gateway(self) -> str:
        """Start the gateway on a free port; its URL."""
        settings = GatewaySettings.model_validate(
            {**self._common(), "http_addr": "127.0.0.1:0", **self._own("gateway")}
        )
        self.http = str((await self._start("gateway", gateway_app.start, settings))["http"])
        return self.http

    def _own(self, service: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.overrides.get(service, {})
        return found

    async def _start(self, name: str, start: Any, settings: Any) -> Mapping[str, Any]:
        stack, tasks = AsyncExitStack(), Tasks()
        stack.push_async_callback(tasks.stop)
        addresses: Mapping[str, Any] = await start(settings, stack, tasks)
        self.parts[name], self.tasks[name] = stack, tasks
        return addresses

    async def stop(self, name: str) -> None:
        """Stop a service in good order."""
        await self.parts.pop(name).aclose()
        del self.tasks[name]

    async def kill(self, name: str) -> None:
        """End a service as kill -9 would: what it was doing is left as it lies, nothing is let
        go of.
        """
        driven = []
        if name == "runner":
            driven = [t for t in asyncio.all_tasks() if t.get_name().startswith("run ")]
        for task in driven:
            task.cancel()
        await self.tasks[name].stop()
        await asyncio.gather(*driven, return_exceptions=True)
        await self.stop(name)

    async def maintain(self, method: str) -> Any:
        """Call a maintenance method of its owner, as the sweeper does; the answer."""
        of_runner = hasattr(rpb, f"{method}Request")
        messages: Any = rpb if of_runner else apb
        channel = self._sweeps(self.runner_addr if of_runner else self.approvals_addr)
        stub: Any = (
            rgrpc.RunsMaintenanceServiceStub(channel.raw)
            if of_runner
            else agrpc.ApprovalsMaintenanceServiceStub(channel.raw)
        )
        request = getattr(messages, f"{method}Request")(limit=500)
        return await channel.call(getattr(stub, method), request)

    def _sweeps(self, addr: str) -> Channel:
        if addr not in self._sweepers:
            self._sweepers[addr] = Channel(addr, Tokens(self.internal_key, "sweeper"))
        return self._sweepers[addr]

    async def sql(self, which: str, statement: str, *args: Any) -> list[Any]:
        """Ask a database as its superuser: what tests look at, services must not."""
        dsn = self.approvals_dsn if which == "approvals" else self.runner_dsn
        connection = await asyncpg.connect(dsn)
        try:
            return list(await connection.fetch(statement, *args))
        finally:
            await connection.close()

    async def provision(self) -> None:
        """Make the tenants `demo` and `demo-b` with their users."""
        channel = Channel(self.approvals_addr, Tokens(self.internal_key, "operator"))
        stub = igrpc.ProvisioningServiceStub(channel.raw)
        for tenant, prefix in (("demo", ""), ("demo-b", "b-")):
            keys = {name: f"hk_{secrets.token_urlsafe(24)}" for name in USERS}
            request = ipb.ProvisionTenantRequest(
                name=tenant,
                users=[
                    ipb.ProvisionedUser(name=name, role=role, api_key_secret=keys[name])
                    for name, role in USERS.items()
                ],
            )
            answer = await channel.call(stub.ProvisionTenant, request)
            for user in answer.users:
                self.users[prefix + user.name] = Client(
                    keys[user.name], user.id, self._approvals_channel, self._runner_channel
                )
        await channel.close()

    def __post_init__(self) -> None:
        self._approvals_channel = aio.insecure_channel(self.approvals_addr)
        self._runner_channel = aio.insecure_channel(self.runner_addr)
        self._sweepers: dict[str, Channel] = {}

    async def close(self) -> None:
        """Stop everything that still runs."""
        await self._approvals_channel.close()
        await self._runner_channel.close()
        for channel in self._sweepers.values():
            await channel.close()
        for name in list(self.parts):
            await self.stop(name)


async def migrate_approvals(dsn: str) -> None:
    """Bring an empty database to A's schema."""
    await Migrator(dsn, "hango_approvals.postgres").up()


async def migrate_runner(dsn: str) -> None:
    """Bring an empty database to R's schema."""
    await Migrator(dsn, "hango_runner.postgres").up()


@asynccontextmanager
async def running_stack(
    postgres: PostgresServer,
    nats: NatsServer,
    *,
    tool_servers: Path | None = None,
    **overrides: Mapping[str, Any],
) -> AsyncIterator[Stack]:
    """A and R on databases of their own. `overrides` are settings by service name."""
    stack = Stack(
        approvals_dsn=await postgres.database_from_template("approvals", migrate_approvals),
        runner_dsn=await postgres.database_from_template("runner", migrate_runner),
        nats_url=nats.url,
        internal_key=secrets.token_hex(32),
        approvals_addr=f"127.0.0.1:{choose_port()}",
        runner_addr=f"127.0.0.1:{choose_port()}",
        tool_servers=tool_servers,
        overrides=overrides,
    )
    try:
        await stack.start_approvals()
        await stack.start_runner()
        await stack.provision()
        yield stack
    finally:
        await stack.close()
        await postgres.drop_database(stack.approvals_dsn)
        await postgres.drop_database(stack.runner_dsn)
