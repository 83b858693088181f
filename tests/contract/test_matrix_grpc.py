"""Every RPC by every caller: who is let in, and what he is told. The RPCs come from the proto
descriptors; one without a row here fails.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hango
import pytest
from grpc import aio
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import access_pb2, types_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango.runs.v1 import history_pb2 as hpb
from hango.runs.v1 import history_pb2_grpc as hgrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_platform import errors, ids
from hango_platform.rpc import status, tokens
from hango_platform.rpc.caller import Principal, Role
from hango_platform.rpc.tokens import Tokens

from tests.contract import matrix
from tests.contract.matrix import ACTORS, NO_ONE, OK, STRANGERS, Actor, Row, World
from tests.support.stack import running_stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.backend import NatsServer, PostgresServer

SERVICES = ("gateway", "approvals", "runner", "sweeper", "operator")
# Implemented by users, and only ever called by us.
NOT_OURS = {"hango.tools.v1.ToolService"}


@dataclass(frozen=True)
class Rule:
    """Who may call an RPC: users by a row, services by name; and what is sent."""

    row: Row
    request: Callable[[World, Actor, bool], Awaitable[Any]] | None = None
    services: frozenset[str] = frozenset()


def _plain(made: Any) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Any:
        return made

    return build


def _of_run(kind: Any, *, changes: bool = False, **more: Any) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Any:
        # What a stranger names stands in his own tenant's trail, as he named it.
        run_id = await world.run(actor, fresh=changes and (done or actor.foreign))
        return kind(run_id=run_id, **more)

    return build


def _of_agent(kind: Any) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Any:
        return kind(name=await world.agent())

    return build


async def _save(world: World, actor: Actor, done: bool) -> Any:
    name = f"s-{ids.new_id()}"
    return rpb.SaveAgentRequest(name=name, spec_json=json.dumps(matrix.spec(name)).encode())


async def _approval(world: World, actor: Actor, done: bool) -> Any:
    return apb.GetApprovalRequest(approval_id=world.approvals[world.creator(actor)])


async def _thread_messages(world: World, actor: Actor, done: bool) -> Any:
    return hpb.ListThreadMessagesRequest(thread_id=world.threads[world.creator(actor)])


async def _thread(world: World, actor: Actor, done: bool) -> Any:
    return hpb.GetThreadRequest(thread_id=world.threads[world.creator(actor)])


def _of_checkpoint(kind: Any) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Any:
        creator = world.creator(actor)
        return kind(run_id=world.runs[creator], checkpoint_id=world.checkpoints[creator])

    return build


async def _diff(world: World, actor: Actor, done: bool) -> Any:
    run_id = world.runs[world.creator(actor)]
    return hpb.DiffRunsRequest(run_id=run_id, other_run_id=run_id)


async def _new_user(world: World, actor: Actor, done: bool) -> Any:
    return ipb.CreateUserRequest(name=f"n-{ids.new_id()}", role=access_pb2.ROLE_MEMBER)


async def _change_user(world: World, actor: Actor, done: bool) -> Any:
    return ipb.UpdateUserRequest(user_id=await world.user(), disabled=True)


async def _new_key(world: World, actor: Actor, done: bool) -> Any:
    return ipb.CreateApiKeyRequest(user_id=await world.user(), name="k")


async def _revoke(world: World, actor: Actor, done: bool) -> Any:
    key_id, _ = await world.new_key(await world.user())
    return ipb.RevokeApiKeyRequest(api_key_id=key_id)


_APPROVE = [apb.Decision(tool_call_id="c1", decision=types_pb2.DECISION_KIND_APPROVE)]
A, D, R = "hango.approvals.v1.", "hango.identity.v1.", "hango.runs.v1."


def _only(*services: str) -> Rule:
    return Rule(matrix.NO_USER, services=frozenset(services))


RULES = {
    A + "ApprovalsService/DecideApprovals": Rule(
        matrix.DECIDE, _of_run(apb.DecideApprovalsRequest, changes=True, decisions=_APPROVE)
    ),
    A + "ApprovalsService/GetApproval": Rule(matrix.READ_RUN, _approval),
    A + "ApprovalsService/ListApprovals": Rule(matrix.READ_RUN, _of_run(apb.ListApprovalsRequest)),
    A + "AuditService/ListAuditEvents": Rule(
        matrix.READ_MANAGED, _plain(apb.ListAuditEventsRequest())
    ),
    A + "AuditService/VerifyAudit": Rule(matrix.READ_MANAGED, _plain(apb.VerifyAuditRequest())),
    A + "AuditService/ExportAudit": Rule(matrix.READ_MANAGED, _plain(apb.ExportAuditRequest())),
    A + "SuspensionsService/OpenSuspension": _only("runner"),
    A + "SuspensionsService/GetVerdicts": _only("runner"),
    A + "SuspensionsService/WithdrawSuspension": _only("runner"),
    A + "SuspensionsService/ReportExecutions": _only("runner"),
    A + "SuspensionsService/RecordAudit": _only("runner"),
    A + "ApprovalsMaintenanceService/ExpireSuspensions": _only("sweeper"),
    A + "ApprovalsMaintenanceService/ReconcileSuspensions": _only("sweeper"),
    A + "ApprovalsMaintenanceService/PruneApprovals": _only("sweeper"),
    A + "ApprovalsMaintenanceService/CheckApprovals": _only("sweeper"),
    D + "IdentityService/Authenticate": _only("gateway", "runner"),
    D + "IdentityService/FindApprover": _only("runner"),
    D + "DirectoryService/GetCaller": Rule(matrix.READ_OWN, _plain(ipb.GetCallerRequest())),
    D + "DirectoryService/CreateUser": Rule(matrix.MANAGE_TENANT, _new_user),
    D + "DirectoryService/ListUsers": Rule(matrix.READ_MANAGED, _plain(ipb.ListUsersRequest())),
    D + "DirectoryService/UpdateUser": Rule(matrix.MANAGE_ONE, _change_user),
    D + "DirectoryService/CreateApiKey": Rule(matrix.MANAGE_ONE, _new_key),
    D + "DirectoryService/ListApiKeys": Rule(matrix.READ_MANAGED, _plain(ipb.ListApiKeysRequest())),
    D + "DirectoryService/RevokeApiKey": Rule(matrix.MANAGE_ONE, _revoke),
    D + "DirectoryService/GetTenant": Rule(matrix.READ_OWN, _plain(ipb.GetTenantRequest())),
    D + "DirectoryService/UpdateTenant": Rule(
        matrix.OWNERS_ONLY, _plain(ipb.UpdateTenantRequest(require_second_party=False))
    ),
    D + "ProvisioningService/ProvisionTenant": _only("operator"),
    R + "AgentsService/SaveAgent": Rule(matrix.MANAGE_TENANT, _save),
    R + "AgentsService/GetAgent": Rule(matrix.READ_TENANT, _of_agent(rpb.GetAgentRequest)),
    R + "AgentsService/ListAgents": Rule(matrix.READ_OWN, _plain(rpb.ListAgentsRequest())),
    R + "AgentsService/DeleteAgent": Rule(matrix.MANAGE_ONE, _of_agent(rpb.DeleteAgentRequest)),
    R + "AgentsService/ListTools": Rule(matrix.READ_OWN, _plain(rpb.ListToolsRequest())),
    R + "RunsService/StartRun": Rule(
        matrix.WRITE_OWN, _plain(rpb.StartRunRequest(agent="gate", input_json=b'"go"'))
    ),
    R + "RunsService/GetRun": Rule(matrix.READ_RUN, _of_run(rpb.GetRunRequest)),
    R + "RunsService/ListRuns": Rule(matrix.READ_OWN, _plain(rpb.ListRunsRequest())),
    R + "RunsService/CancelRun": Rule(
        matrix.CHANGE_RUN, _of_run(rpb.CancelRunRequest, changes=True)
    ),
    R + "RunsService/ListMessages": Rule(matrix.READ_RUN, _of_run(rpb.ListMessagesRequest)),
    R + "RunsService/ListRunEvents": Rule(matrix.READ_RUN, _of_run(rpb.ListRunEventsRequest)),
    R + "RunsService/WatchRunEvents": Rule(matrix.READ_RUN, _of_run(rpb.WatchRunEventsRequest)),
    R + "ThreadsService/ListThreads": Rule(matrix.READ_OWN, _plain(hpb.ListThreadsRequest())),
    R + "ThreadsService/GetThread": Rule(matrix.READ_RUN, _thread),
    R + "ThreadsService/ListThreadMessages": Rule(matrix.READ_RUN, _thread_messages),
    R + "CheckpointsService/ListCheckpoints": Rule(
        matrix.READ_RUN, _of_run(hpb.ListCheckpointsRequest)
    ),
    R + "CheckpointsService/GetCheckpoint": Rule(
        matrix.READ_RUN, _of_checkpoint(hpb.GetCheckpointRequest)
    ),
    R + "CheckpointsService/ForkRun": Rule(matrix.CHANGE_RUN, _of_checkpoint(hpb.ForkRunRequest)),
    R + "CheckpointsService/DiffRuns": Rule(matrix.READ_RUN, _diff),
    R + "RunStatesService/GetRunStates": _only("approvals"),
    R + "RunsMaintenanceService/ReapRuns": _only("sweeper"),
    R + "RunsMaintenanceService/ReconcileRuns": _only("sweeper"),
    R + "RunsMaintenanceService/PruneRuns": _only("sweeper"),
}


def descriptors() -> Iterator[Any]:
    """Every method of every service under proto/ that is ours to serve."""
    for module in pkgutil.walk_packages(hango.__path__, "hango."):
        if not module.name.endswith("_pb2"):
            continue
        for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values():
            if service.full_name not in NOT_OURS:
                yield from service.methods


METHODS = {f"{m.containing_service.full_name}/{m.name}": m for m in descriptors()}
KNOWN = sorted(METHODS.keys() & RULES.keys())


def test_every_rpc_has_a_row() -> None:
    assert METHODS.keys() == RULES.keys()


@pytest.fixture(scope="module")
async def world(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[World]:
    async with running_stack(postgres_server, nats_server) as stack:
        made = await matrix.make_world(stack)
        yield made
        await made.untouched()


async def outcome(world: World, name: str, request: Any, *metadata: tuple[str, str]) -> str:
    """The reason of the refusal, or OK and what was answered."""
    method = METHODS[name]
    channel = world.owner.runner if name.startswith(R) else world.owner.approvals
    service = method.containing_service
    stubs = next(s for s in (agrpc, igrpc, rgrpc, hgrpc) if hasattr(s, f"{service.name}Stub"))
    bound = getattr(getattr(stubs, f"{service.name}Stub")(channel), method.name)
    call = bound(request, metadata=metadata, timeout=20)
    try:
        if method.server_streaming:
            async for answer in call:
                return f"{OK} {answer}"
        return f"{OK} {await call}"
    except aio.AioRpcError as error:
        return status.from_rpc_error(error).reason
    finally:
        call.cancel()


def empty(name: str) -> Any:
    """A request without content."""
    method = METHODS[name]
    for module in (apb, ipb, rpb, hpb):
        if hasattr(module, method.input_type.name):
            return getattr(module, method.input_type.name)()
    raise LookupError(name)


@pytest.mark.parametrize("actor", ACTORS, ids=str)
@pytest.mark.parametrize("name", KNOWN)
async def test_users(world: World, name: str, actor: Actor) -> None:
    rule = RULES[name]
    expected = rule.row.expects(actor)
    build = rule.request
    request = empty(name) if build is None else await build(world, actor, expected == OK)
    told = await outcome(world, name, request, ("authorization", f"Bearer {world.key(actor)}"))
    assert told.partition(" ")[0] == expected
    world.hides(actor, told)


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("name", KNOWN)
async def test_strangers(world: World, name: str, stranger: str) -> None:
    credential = world.strangers[stranger]
    metadata = [("authorization", f"Bearer {credential}")] if credential else []
    assert await outcome(world, name, empty(name), *metadata) == NO_ONE


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", KNOWN)
async def test_services(world: World, name: str, service: str) -> None:
    token = Tokens(world.stack.internal_key, service).make()
    told = await outcome(world, name, empty(name), (tokens.HEADER, token))
    if service in RULES[name].services:
        reasons = {OK, errors.InvalidRequest.reason}
        # What it is asked to authenticate here is nobody's.
        reasons |= {NO_ONE} if name.endswith("/Authenticate") else set()
        assert told.partition(" ")[0] in reasons
    else:
        assert told == errors.Forbidden.reason


@pytest.mark.parametrize("name", KNOWN)
async def test_tokens_that_prove_nothing(world: World, name: str) -> None:
    owner = Principal(world.tenant_id, "demo", world.owner.user_id, Role.OWNER)
    forged = Tokens("f" * 64, "gateway").make(owner)
    assert await outcome(world, name, empty(name), (tokens.HEADER, forged)) == NO_ONE
    # Only the gateway speaks for users.
    for service in ("runner", "sweeper", "operator", "approvals", "nobody"):
        token = Tokens(world.stack.internal_key, service).make(owner)
        told = await outcome(world, name, empty(name), (tokens.HEADER, token))
        assert told == errors.Forbidden.reason


async def test_what_is_not_described_is_not_served(world: World) -> None:
    call = world.owner.approvals.unary_unary("/hango.approvals.v1.ApprovalsService/Overrule")
    with pytest.raises(aio.AioRpcError):
        await call(b"", metadata=(("authorization", f"Bearer {world.owner.key}"),), timeout=10)
