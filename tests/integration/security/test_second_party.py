"""Nobody decides a run that he created, where the tenant demands it; and none is started that
nobody else could decide.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hango.common.v1 import access_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_platform import errors, ids

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.security.conftest import Site

APPROVE = {"decisions": [{"tool_call_id": "c1", "decision": "approve"}]}
START = {"agent": "gated", "input": "go"}


async def demand(site: Site, yes: bool, *, by: str = "owner") -> None:
    """Set what the tenant demands; returns once every service has heard of it."""
    answer = await site.ask(by, "PATCH", "/v1/tenant", {"require_second_party": yes})
    assert answer.json()["require_second_party"] is yes


@asynccontextmanager
async def demanding(site: Site) -> AsyncIterator[None]:
    await demand(site, True)
    try:
        yield
    finally:
        await demand(site, False)


async def disable(site: Site, user: str, yes: bool) -> None:
    body = {"disabled": yes}
    answer = await site.ask("owner", "PATCH", f"/v1/users/{site.user(user).user_id}", body)
    assert answer.is_success


@pytest.mark.parametrize("creator", ["owner", "admin"])
async def test_nobody_decides_a_run_that_he_created(site: Site, creator: str) -> None:
    other = {"owner": "admin", "admin": "owner"}[creator]
    run = await site.user(creator).start("gated")
    async with demanding(site):
        with pytest.raises(errors.SecondPartyRequired):
            await site.user(creator).decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
        refused = await site.ask(creator, "POST", f"/v1/runs/{run.id}/approvals", APPROVE)
        assert (refused.status_code, refused.json()["reason"]) == (403, "SECOND_PARTY_REQUIRED")
        assert refused.json()["type"] == "/problems/second-party-required"
        assert (await site.user(other).run(run.id)).pending_approvals == 1
        rows = await site.user(other).audit(run_id=run.id, action="approval.decide")
        assert [(r.outcome, r.actor_id) for r in rows] == [
            ("denied", site.user(creator).user_id)
        ] * 2
        done = await site.ask(other, "POST", f"/v1/runs/{run.id}/approvals", APPROVE)
        assert done.json()["approvals"][0]["decided_by"] == site.user(other).user_id


async def test_a_run_that_nobody_else_could_decide_is_not_started(site: Site) -> None:
    async with demanding(site):
        # The creator is the tenant's one approver who is not disabled.
        await disable(site, "admin", True)
        try:

            async def refused() -> bool:
                answer = await site.ask("owner", "POST", "/v1/runs", START)
                return answer.status_code == 403 and (
                    answer.json()["reason"] == "SECOND_PARTY_REQUIRED"
                )

            await eventually(refused, timeout=3, what="what was known is forgotten in a second")
            stub = rgrpc.RunsServiceStub(site.user("owner").runner)
            request = rpb.StartRunRequest(agent="gated", input_json=b'"go"')
            with pytest.raises(errors.SecondPartyRequired):
                await site.user("owner").call(stub.StartRun, request)
            # A member's run can be decided by the owner.
            started = await site.ask("member", "POST", "/v1/runs", START)
            assert started.status_code == 202
        finally:
            await disable(site, "admin", False)
        assert (await site.ask("owner", "POST", "/v1/runs", START)).status_code == 202
    assert (await site.ask("owner", "POST", "/v1/runs", START)).status_code == 202


async def test_a_repeat_is_given_its_first_answer_though_the_approvers_are_gone(
    site: Site,
) -> None:
    headers = {
        "authorization": f"Bearer {site.user('owner').key}",
        "idempotency-key": ids.new_id(),
    }
    async with demanding(site):
        first = await site.http.post("/v1/runs", json=START, headers=headers)
        assert first.status_code == 202
        await disable(site, "admin", True)
        try:
            again = await site.http.post("/v1/runs", json=START, headers=headers)
        finally:
            await disable(site, "admin", False)
        assert again.json()["id"] == first.json()["id"]


async def test_another_tenants_approvers_do_not_count(site: Site) -> None:
    stub = igrpc.DirectoryServiceStub(site.user("b-owner").approvals)
    await site.user("b-owner").call(
        stub.UpdateUser,
        ipb.UpdateUserRequest(user_id=site.user("b-admin").user_id, role=access_pb2.ROLE_MEMBER),
    )
    await demand(site, True, by="b-owner")

    async def refused() -> bool:
        return (await site.ask("b-owner", "POST", "/v1/runs", START)).status_code == 403

    await eventually(refused, timeout=3, what="demo's admins decide nothing here")


async def test_only_an_owner_sets_it_and_every_change_is_a_row(site: Site) -> None:
    for by in ("admin", "member"):
        answer = await site.ask(by, "PATCH", "/v1/tenant", {"require_second_party": True})
        assert answer.status_code == 403
    async with demanding(site):
        pass
    rows = await site.user("owner").audit(action="tenant.update")
    newest = [(json.loads(r.detail_json)["require_second_party"], r.outcome) for r in rows[:2]]
    assert newest == [(False, "ok"), (True, "ok")]
    assert {r.actor_id for r in rows[:2]} == {site.user("owner").user_id}
