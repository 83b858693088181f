"""Who sees what of a paused run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango_platform import ids
from hango_platform.errors import Forbidden, HangoError, NotAnApprover, NotFound, Unauthenticated

from tests.support.scripts import GATED, agent, fire, turn

if TYPE_CHECKING:
    from tests.support.stack import Stack

APPROVE = {"tool_call_id": "c1", "decision": "approve"}
STRANGERS = ["other-member", "b-owner", "b-admin", "b-member"]


@pytest.fixture(scope="module")
async def run(stack: Stack) -> Any:
    """A paused run of the demo tenant's member."""
    spec = agent(turn(fire("c1", "hidden")), interrupt_on=GATED)
    await stack.users["admin"].save_agent(spec)
    found = await stack.users["member"].start(spec["name"])
    assert found.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
    return found


@pytest.mark.parametrize("who", STRANGERS)
async def test_strangers_see_nothing(stack: Stack, run: Any, who: str) -> None:
    """Item 10: another tenant and another member see nothing of it: no run, message, event,
    approval or audit row, and what they ask for is as if it were not there.
    """
    stranger, admin = stack.users[who], stack.users["admin"]
    (approval,) = await admin.approval_list(run.id)
    stub = agrpc.ApprovalsServiceStub(stranger.approvals)
    for reading in (
        stranger.run(run.id),
        stranger.messages(run.id),
        stranger.events(run.id),
        stranger.until(run.id, "run.finished"),
        stranger.cancel(run.id),
        stranger.approval_list(run.id),
        stranger.call(stub.GetApproval, apb.GetApprovalRequest(approval_id=approval.id)),
    ):
        with pytest.raises(NotFound):
            await reading
    assert run.id not in [r.id for r in await stranger.runs()]
    assert run.id not in [a.run_id for a in await stranger.approval_list()]
    with pytest.raises(NotFound if who in ("b-owner", "b-admin") else NotAnApprover):
        await stranger.decide(run.id, APPROVE)
    (same,) = await admin.approval_list(run.id)
    assert same == approval


@pytest.mark.parametrize("who", ["owner", "admin", "member"])
async def test_the_others_see_it(stack: Stack, run: Any, who: str) -> None:
    """The creator and the tenant's owner and admin see the run and its approval."""
    user = stack.users[who]
    assert (await user.run(run.id)).id == run.id
    assert run.id in [r.id for r in await user.runs()]
    assert [a.run_id for a in await user.approval_list(run.id)] == [run.id]
    assert [m.role for m in await user.messages(run.id)] == ["user", "assistant"]


@pytest.mark.parametrize("who", ["member", "other-member", "b-member"])
async def test_members_neither_save_nor_read_audit(stack: Stack, who: str) -> None:
    """The role matrix: saving agents and reading audit are the owner's and the admin's."""
    with pytest.raises(Forbidden):
        await stack.users[who].save_agent(agent())
    with pytest.raises(Forbidden):
        await stack.users[who].audit()


async def test_audit_is_the_tenants_own(stack: Stack, run: Any) -> None:
    """Another tenant's admin reads only what his own people tried."""
    with pytest.raises(NotAnApprover):
        await stack.users["b-member"].decide(run.id, APPROVE)
    ours = {user.user_id for name, user in stack.users.items() if not name.startswith("b-")}
    rows = await stack.users["b-admin"].audit(run_id=run.id)
    assert stack.users["b-member"].user_id in {r.actor_id for r in rows}
    assert {r.outcome for r in rows} == {"denied"}
    assert not ours & {r.actor_id for r in await stack.users["b-admin"].audit()}


async def test_nobody_without_a_credential(stack: Stack, run: Any) -> None:
    """No or a bad credential is refused before anything is looked up."""
    known = stack.users["member"]
    for key in ("", "hk_wrong", known.key[:-1]):
        nobody = type(known)(key, "", known.approvals, known.runner)
        for asked in (nobody.run(run.id), nobody.approval_list(run.id)):
            with pytest.raises(Unauthenticated):
                await asked


async def test_refusals_do_not_tell_whether_a_run_is_there(stack: Stack, run: Any) -> None:
    """A run that is there and one that is not are refused alike."""

    async def refusal(run_id: str) -> tuple[str, str]:
        with pytest.raises(HangoError) as refused:
            await stack.users["b-owner"].decide(run_id, APPROVE)
        return refused.value.reason, json.dumps(refused.value.members)

    assert await refusal(run.id) == await refusal(ids.new_id())
