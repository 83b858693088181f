"""Cancelling beside deciding, over both APIs: A is told before the cancel is answered, and what was
decided stays decided.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_platform import errors

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.security.conftest import Site

APPROVE = {"tool_call_id": "c1", "decision": "approve"}


async def decide(site: Site, api: str, run_id: str, by: str = "admin") -> dict[str, Any]:
    """Approve; the problem, or nothing."""
    if api == "rest":
        path = f"/v1/runs/{run_id}/approvals"
        answer = await site.ask(by, "POST", path, {"decisions": [APPROVE]})
        return {} if answer.is_success else dict(answer.json())
    try:
        await site.user(by).decide(run_id, APPROVE)
    except errors.HangoError as error:
        return {"status": error.status, "reason": error.reason, **error.members}
    return {}


async def cancel(site: Site, api: str, run_id: str, by: str = "member") -> None:
    if api == "rest":
        answer = await site.ask(by, "POST", f"/v1/runs/{run_id}/cancel")
        assert answer.json()["state"] == "cancelled"
    else:
        run = await site.user(by).cancel(run_id)
        assert run.state == types_pb2.RUN_STATE_CANCELLED


@pytest.mark.parametrize("api", ["rest", "grpc"])
async def test_a_decide_after_a_cancel_is_closed(site: Site, api: str) -> None:
    run = await site.user("member").start("gated")
    await cancel(site, api, run.id)
    # At once: the cancel was not answered before A knew.
    refused = await decide(site, api, run.id)
    assert (refused["status"], refused["reason"]) == (409, "APPROVALS_CLOSED")
    assert refused["state"] == "withdrawn"
    [approval] = (await site.ask("member", "GET", f"/v1/runs/{run.id}/approvals")).json()["items"]
    assert (approval["state"], approval["decision"]) == ("withdrawn", None)
    rows = await site.user("admin").audit(run_id=run.id)
    acts = [(r.action, r.outcome, r.actor_id) for r in reversed(rows)]
    assert acts == [
        ("approval.withdraw", "ok", site.user("member").user_id),
        ("approval.decide", "error", site.user("admin").user_id),
    ]
    again = await site.ask("member", "POST", f"/v1/runs/{run.id}/cancel")
    assert (again.status_code, again.json()["reason"]) == (409, "RUN_FINISHED")


@pytest.mark.parametrize("api", ["rest", "grpc"])
async def test_a_decision_that_won_is_kept_and_its_calls_are_skipped(site: Site, api: str) -> None:
    run = await site.user("member").start("gated")
    # No worker takes the run: it is cancelled between the decision and the tool.
    await site.stack.sql(
        "runner", "UPDATE runs SET lane = 'nobody' WHERE id = $1 RETURNING id", run.id
    )
    assert await decide(site, api, run.id) == {}
    await cancel(site, api, run.id)

    async def skipped() -> dict[str, Any] | None:
        path = f"/v1/runs/{run.id}/approvals"
        [found] = (await site.ask("admin", "GET", path)).json()["items"]
        return found if found["execution"]["state"] == "skipped" else None

    approval = await eventually(skipped, what="R reported that the call was skipped")
    assert (approval["state"], approval["decision"]) == ("decided", "approve")
    assert approval["decided_by"] == site.user("admin").user_id
    rows = list(reversed(await site.user("admin").audit(run_id=run.id)))
    assert [(r.action, r.actor_kind) for r in rows] == [
        ("approval.decide", "user"),
        ("approval.execute", "system"),
    ]
    assert json.loads(rows[-1].detail_json)["state"] == "skipped"
    refused = await decide(site, api, run.id)
    assert (refused["reason"], refused["state"]) == ("APPROVALS_CLOSED", "decided")


async def test_a_decision_is_final(site: Site) -> None:
    """No call changes it: not another decide, a cancel, an expiry, or a withdraw."""
    run = await site.user("member").start("gated")
    assert await decide(site, "grpc", run.id) == {}
    await site.user("member").finished(run.id)
    kept = await site.stack.sql(
        "approvals", "SELECT decision, decided_by FROM pending_approvals WHERE run_id = $1", run.id
    )
    assert (await decide(site, "grpc", run.id, by="owner"))["status"] == 409
    with pytest.raises(errors.RunFinished):
        await site.user("member").cancel(run.id)
    await site.stack.sql(
        "approvals",
        "UPDATE suspensions SET expires_at = created_at WHERE run_id = $1 RETURNING id",
        run.id,
    )
    await site.stack.maintain("ExpireSuspensions")
    await site.stack.maintain("ReconcileSuspensions")
    assert kept == await site.stack.sql(
        "approvals", "SELECT decision, decided_by FROM pending_approvals WHERE run_id = $1", run.id
    )
