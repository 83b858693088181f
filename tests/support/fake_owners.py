"""A and R at their edge, for tests of the gateway: the platform's server with its access rules and
errors, over data in memory. What they were asked is kept.
"""

# ruff: noqa: N802 - methods of a servicer are named as in the proto
from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from google.protobuf.timestamp_pb2 import Timestamp
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import access_pb2, types_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_cli.embedded.ports import choose_port
from hango_gateway import app as gateway_app
from hango_gateway.settings import Settings
from hango_platform import errors, ids
from hango_platform.errors import Violation
from hango_platform.lifecycle import Tasks
from hango_platform.rpc import caller
from hango_platform.rpc.server import Server
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry import trace
from hango_platform.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = "k" * 32
TENANT_ID = "01890000-0000-7000-8000-000000000001"
OTHER_TENANT_ID = "01890000-0000-7000-8000-000000000002"
RUN = "01890000-0000-7000-8000-00000000000a"
APPROVAL = "01890000-0000-7000-8000-00000000000b"
SUSPENSION = "01890000-0000-5000-8000-00000000000c"
UNKNOWN = "01890000-0000-7000-8000-0000000000ff"
EXACT = b'{"n": 9007199254740993, "big": 1e400,\n "d": 1.10, "s": "\\ud800"}'
ROLES = {"owner": 3, "admin": 2, "member": 1, "b-owner": 3}
USERS = {name: ids.derived_id("user", name) for name in ROLES}
A_PAGE = "a-page"


def at(seconds: int = 0, micros: int = 0) -> Timestamp:
    return Timestamp(seconds=1_750_000_000 + seconds, nanos=micros * 1000)


def a_run(**more: Any) -> rpb.Run:
    """A run in the state that is asked for; awaiting by default."""
    run = rpb.Run(
        id=RUN,
        agent="writer",
        agent_version=1,
        state=types_pb2.RUN_STATE_AWAITING_APPROVAL,
        created_by=USERS["member"],
        metadata_json=b'{"n": 1.10}',
        lane="default",
    )
    run.created_at.CopyFrom(at())
    run.MergeFrom(rpb.Run(**more))
    return run


def an_approval(**more: Any) -> apb.Approval:
    """A pending approval whose arguments no JSON library leaves alone."""
    approval = apb.Approval(
        id=APPROVAL,
        run_id=RUN,
        suspension_id=SUSPENSION,
        tool_call_id="c1",
        tool_name="bank__pay",
        kind=types_pb2.APPROVAL_KIND_TOOL_CALL,
        arguments_json=EXACT,
        arguments_sha256=hashlib.sha256(EXACT).hexdigest(),
        allowed_decisions=[types_pb2.DECISION_KIND_APPROVE, types_pb2.DECISION_KIND_EDIT],
        state=types_pb2.APPROVAL_STATE_PENDING,
        rule_json=b'{"when": {"arg": "n", "gt": 1e400}}',
        parameters_json=b'{"type": "object"}',
        agent="writer",
        agent_version=1,
        requested_by=USERS["member"],
        execution_state=types_pb2.EXECUTION_STATE_NONE,
    )
    approval.created_at.CopyFrom(at())
    approval.expires_at.CopyFrom(at(3600))
    approval.MergeFrom(apb.Approval(**more))
    return approval


def an_audit_event() -> apb.AuditEvent:
    return apb.AuditEvent(
        id=ids.new_id(),
        seq=1,
        at=at(),
        tenant_id=TENANT_ID,
        actor_kind="system",
        action="approval.expire",
        target_kind="pending_approval",
        target_id=APPROVAL,
        outcome="ok",
        detail_json=b"{}",
        prev_hash="0" * 64,
        hash="1" * 64,
    )


@dataclass
class Owners:
    """What both know, and what they are to do."""

    asked: list[Any] = field(default_factory=list)
    refuse: dict[str, Exception] = field(default_factory=dict)
    "By method: what it raises."
    hang: dict[str, asyncio.Event] = field(default_factory=dict)
    "By method: what it sets before it never answers."
    revoked: set[str] = field(default_factory=set)
    authenticated: int = 0
    traces: set[str] = field(default_factory=set)
    run: rpb.Run = field(default_factory=a_run)
    approval: apb.Approval = field(default_factory=an_approval)
    events: list[rpb.RunEvent] = field(default_factory=list)
    messages: list[rpb.Message] = field(default_factory=list)

    def reset(self) -> None:
        """Back to the beginning."""
        self.__dict__.update(Owners().__dict__)

    def tell(self, kind: str, **data: Any) -> rpb.RunEvent:
        """The story of the run grows by an event."""
        event = rpb.RunEvent(
            seq=len(self.events) + 1, type=kind, at=at(), data_json=json.dumps(data).encode()
        )
        self.events.append(event)
        return event

    @property
    def finished(self) -> bool:
        return bool(self.events) and self.events[-1].type == "run.finished"

    def last(self, kind: type[Any]) -> Any:
        """The last request of this type."""
        return next(request for request in reversed(self.asked) if isinstance(request, kind))

    def heard(self, request: Any) -> Any:
        self.asked.append(request)
        self.traces.add(trace.trace_id())
        name = type(request).__name__.removesuffix("Request")
        if (error := self.refuse.get(name)) is not None:
            raise error
        return request

    def see(self, run_id: str) -> None:
        """The run is the demo tenant's."""
        if run_id != RUN or caller.principal().tenant_id != TENANT_ID:
            raise errors.NotFound


class Identity(igrpc.IdentityServiceServicer, igrpc.DirectoryServiceServicer):
    """Keys are `hk_<user>`."""

    def __init__(self, owners: Owners) -> None:
        self._o = owners

    async def FindApprover(
        self, request: ipb.FindApproverRequest, context: Any
    ) -> ipb.FindApproverResponse:
        """Somebody always is; the gateway never asks."""
        return ipb.FindApproverResponse(found=True)

    async def Authenticate(self, request: Any, context: Any) -> Any:
        self._o.authenticated += 1
        self._o.heard(request)
        name = request.credential.removeprefix("hk_")
        if name not in ROLES or name in self._o.revoked:
            raise errors.Unauthenticated
        other = name.startswith("b-")
        return ipb.AuthenticateResponse(
            principal=ipb.Principal(
                tenant_id=OTHER_TENANT_ID if other else TENANT_ID,
                tenant="demo-b" if other else "demo",
                user_id=USERS[name],
                user_name=name,
                role=access_pb2.Role.ValueType(ROLES[name]),
            )
        )

    async def GetCaller(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    def _user(self, **more: Any) -> ipb.User:
        user = ipb.User(id=UNKNOWN, name="ann", role=access_pb2.ROLE_MEMBER, created_at=at())
        user.MergeFrom(ipb.User(**more))
        return user

    def _key(self) -> ipb.ApiKey:
        return ipb.ApiKey(id=UNKNOWN, user_id=UNKNOWN, name="ci", prefix="hk_abc", created_at=at())

    async def CreateUser(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.CreateUserResponse(user=self._user(role=request.role))

    async def ListUsers(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.ListUsersResponse(users=[self._user()], next_page_token=A_PAGE)

    async def UpdateUser(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.UpdateUserResponse(user=self._user(disabled=request.disabled))

    async def CreateApiKey(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.CreateApiKeyResponse(api_key=self._key(), secret="hk_abcdef")

    async def ListApiKeys(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.ListApiKeysResponse(api_keys=[self._key()])

    async def RevokeApiKey(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.RevokeApiKeyResponse(api_key=self._key())

    async def GetTenant(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return ipb.GetTenantResponse(tenant=ipb.Tenant(id=TENANT_ID, name="demo", created_at=at()))

    async def UpdateTenant(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        tenant = ipb.Tenant(id=TENANT_ID, name="demo", created_at=at())
        tenant.require_second_party = request.require_second_party
        return ipb.UpdateTenantResponse(tenant=tenant)


class Approvals(agrpc.ApprovalsServiceServicer, agrpc.AuditServiceServicer):
    """One approval, and the order in which a decide is looked at."""

    def __init__(self, owners: Owners) -> None:
        self._o = owners

    async def DecideApprovals(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        if not caller.principal().role.may_decide:
            raise errors.NotAnApprover
        if not ids.is_id(request.run_id):
            raise errors.InvalidRequest(violations=[Violation("/run_id", "must be a UUID")])
        self._o.see(request.run_id)
        found = [Violation(v.pointer, v.message) for v in request.violations]
        for index, decision in enumerate(request.decisions):
            if decision.decision == types_pb2.DECISION_KIND_UNSPECIFIED:
                why = "must be approve, edit, reject or respond"
                found.append(Violation(f"/decisions/{index}/decision", why))
        if found:
            raise errors.InvalidRequest(violations=found)
        if not request.decisions:
            raise errors.ApprovalsIncomplete(remaining=[{"approval_id": APPROVAL}])
        decision = request.decisions[0]
        decided = an_approval(
            state=types_pb2.APPROVAL_STATE_DECIDED,
            decision=decision.decision,
            decision_args_json=decision.args_json if decision.HasField("args_json") else None,
            decision_message=decision.message if decision.HasField("message") else None,
            decided_by=caller.principal().user_id,
            decided_at=at(1, 5),
        )
        return apb.DecideApprovalsResponse(
            run_id=RUN, suspension_id=SUSPENSION, approvals=[decided], resume_event_id=UNKNOWN
        )

    async def GetApproval(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(RUN if request.approval_id == APPROVAL else "")
        return apb.GetApprovalResponse(
            approval=self._o.approval, batch=[self._o.approval], lifecycle=[an_audit_event()]
        )

    async def ListApprovals(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id or RUN)
        if request.page_token not in ("", A_PAGE):
            raise errors.InvalidRequest(violations=[Violation("/page_token", "is no token")])
        return apb.ListApprovalsResponse(
            approvals=[self._o.approval], next_page_token="" if request.page_token else A_PAGE
        )

    async def ListAuditEvents(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return apb.ListAuditEventsResponse(events=[an_audit_event()])

    async def VerifyAudit(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return apb.VerifyAuditResponse(
            ok=False, checked=3, problems=[apb.AuditProblem(seq=2, problem="is missing")]
        )

    async def ExportAudit(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return apb.ExportAuditResponse(events=[] if request.after else [an_audit_event()])


class Runs(rgrpc.RunsServiceServicer, rgrpc.AgentsServiceServicer):
    """One run and one agent."""

    def __init__(self, owners: Owners) -> None:
        self._o = owners
        self._saved: set[str] = set()

    async def StartRun(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return rpb.StartRunResponse(run=a_run(state=types_pb2.RUN_STATE_QUEUED))

    async def GetRun(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        if "GetRun" in self._o.hang:
            self._o.hang["GetRun"].set()
            await asyncio.Event().wait()
        return rpb.GetRunResponse(run=self._o.run)

    async def ListRuns(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return rpb.ListRunsResponse(runs=[self._o.run], next_page_token=A_PAGE)

    async def CancelRun(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        return rpb.CancelRunResponse(run=a_run(state=types_pb2.RUN_STATE_CANCELLED))

    async def ListMessages(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        return rpb.ListMessagesResponse(messages=self._o.messages)

    async def ListRunEvents(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        size = request.page_size
        found = [e for e in self._o.events if e.seq > request.after][:size]
        last = found[-1].seq if found else len(self._o.events)
        over = self._o.finished and last == len(self._o.events)
        return rpb.ListRunEventsResponse(events=found, finished=over)

    def WatchRunEvents(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    def _agent(self, name: str = "writer", spec: bytes = b'{"name": "writer"}') -> rpb.Agent:
        return rpb.Agent(
            name=name,
            version=1,
            spec_json=spec,
            interrupt_on_json=b'{"*": true}',
            warnings=["a warning"],
            created_at=at(),
        )

    async def SaveAgent(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        created = request.name not in self._saved
        self._saved.add(request.name)
        return rpb.SaveAgentResponse(
            agent=self._agent(request.name, request.spec_json), created=created
        )

    async def GetAgent(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        if request.name != "writer":
            raise errors.NotFound
        return rpb.GetAgentResponse(agent=self._agent())

    async def ListAgents(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return rpb.ListAgentsResponse(agents=[self._agent()])

    async def DeleteAgent(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return rpb.DeleteAgentResponse()

    async def ListTools(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        tool = rpb.ToolInfo(
            name="bank__pay",
            description="Pays.",
            parameters_json=b'{"type": "object", "n": 9007199254740993}',
            effect="once",
            source="bank",
            unavailable="its server cannot be reached",
        )
        return rpb.ListToolsResponse(tools=[tool])


async def _nobody(_credential: str) -> caller.Principal:
    raise errors.Unauthenticated


async def serve_approvals(owners: Owners, addr: str) -> Server:
    """A, at this address."""
    identity, approvals = Identity(owners), Approvals(owners)
    i, a = ipb.DESCRIPTOR.services_by_name, apb.DESCRIPTOR.services_by_name
    server = Server(
        [
            (
                i["IdentityService"],
                lambda s: igrpc.add_IdentityServiceServicer_to_server(identity, s),
            ),
            (
                i["DirectoryService"],
                lambda s: igrpc.add_DirectoryServiceServicer_to_server(identity, s),
            ),
            (
                a["ApprovalsService"],
                lambda s: agrpc.add_ApprovalsServiceServicer_to_server(approvals, s),
            ),
            (a["AuditService"], lambda s: agrpc.add_AuditServiceServicer_to_server(approvals, s)),
        ],
        authenticate=_nobody,
        internal=Tokens(KEY, "approvals"),
        metrics=Metrics(),
    )
    await server.start(addr)
    return server


async def serve_runner(owners: Owners, addr: str) -> Server:
    """R, at this address."""
    from tests.support import fake_history  # it stands on this module

    runs, r = Runs(owners), rpb.DESCRIPTOR.services_by_name
    server = Server(
        [
            (r["RunsService"], lambda s: rgrpc.add_RunsServiceServicer_to_server(runs, s)),
            (r["AgentsService"], lambda s: rgrpc.add_AgentsServiceServicer_to_server(runs, s)),
            *fake_history.services(owners),
        ],
        authenticate=_nobody,
        internal=Tokens(KEY, "runner"),
        metrics=Metrics(),
    )
    await server.start(addr)
    return server


@dataclass
class Edge:
    """A gateway in this process over the fake owners."""

    owners: Owners
    url: str
    addresses: dict[str, Any]
    approvals_addr: str
    runner_addr: str
    servers: dict[str, Server]
    stack: AsyncExitStack
    http: httpx.AsyncClient

    def as_(self, user: str, **headers: str) -> dict[str, str]:
        """The headers of this user's requests."""
        return {"Authorization": f"Bearer hk_{user}", **headers}

    async def ask(self, method: str, path: str, user: str = "admin", **more: Any) -> httpx.Response:
        """A request of this user."""
        headers = {**self.as_(user), **more.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **more)


@asynccontextmanager
async def gateway(nats_url: str, **settings: Any) -> AsyncIterator[Edge]:
    """A gateway over fake owners. All of it is gone at the end."""
    owners = Owners()
    approvals_addr, runner_addr = (f"127.0.0.1:{choose_port()}" for _ in range(2))
    servers = {
        "approvals": await serve_approvals(owners, approvals_addr),
        "runner": await serve_runner(owners, runner_addr),
    }
    given = {
        "internal_key": KEY,
        "nats_url": nats_url,
        "http_addr": "127.0.0.1:0",
        "approvals_addr": approvals_addr,
        "runner_addr": runner_addr,
        "drain": "2s",
        **settings,
    }
    async with AsyncExitStack() as stack:
        tasks = Tasks()
        stack.push_async_callback(tasks.stop)
        addresses = dict(await gateway_app.start(Settings.model_validate(given), stack, tasks))
        url = addresses["http"]
        async with httpx.AsyncClient(base_url=url, timeout=10) as http:
            yield Edge(owners, url, addresses, approvals_addr, runner_addr, servers, stack, http)
            assert not tasks.failed.done()
    for server in servers.values():
        await server.stop(0)
