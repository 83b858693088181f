"""Who sees which approvals, and in what order."""

from typing import Any

import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform import errors, ids

from tests.support.approvals import ALL, Approvals, Tenant, decision, kind, pending, question


async def listed(service: Approvals, tenant: Tenant, by: str, **more: Any) -> list[str]:
    """The ids that a user sees, over all pages."""
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListApprovalsRequest(page_token=token, **more)
        page = await service.as_user(tenant[by], "ListApprovals", request)
        found += [a.id for a in page.approvals]
        token = page.next_page_token
        if not token:
            return found


async def test_an_approval_as_people_read_it(service: Approvals, tenant: Tenant) -> None:
    raw = b'{"to":"ann", "amount":150}'
    calls = [
        pending("c1", raw, subagent_path="0.2", subagent_call_id="t1", entry=1),
        question("q1", index=1, schema={"type": "string"}),
    ]
    pause = await service.open(tenant, calls)
    request = pb.GetApprovalRequest(approval_id=pause.approval_ids[0])
    answer = await service.as_user(tenant["admin"], "GetApproval", request)
    found = answer.approval
    assert (found.id, found.run_id, found.suspension_id) == (
        pause.approval_ids[0],
        pause.run_id,
        pause.id,
    )
    assert (found.arguments_json, found.tool_call_id, found.tool_name) == (raw, "c1", "pay")
    assert (found.subagent_path, found.subagent_call_id, found.entry) == ("0.2", "t1", 1)
    assert list(found.allowed_decisions) == [kind(k) for k in ALL]
    assert found.state == types_pb2.APPROVAL_STATE_PENDING
    assert found.requested_by == tenant["member"].user_id
    assert (found.rule_json, found.parameters_json) == (
        calls[0].rule_json,
        calls[0].parameters_json,
    )
    assert found.execution_state == types_pb2.EXECUTION_STATE_NONE
    for unset in ("decision_message", "decided_by", "decided_at", "decision_args_json"):
        assert not found.HasField(unset)
    assert [a.id for a in answer.batch] == pause.approval_ids
    assert answer.batch[1].input_json == calls[1].input_json
    assert not answer.lifecycle

    rejected = [decision("c1", "reject"), decision("q1", "reject")]
    await service.decide(tenant["admin"], pause.run_id, rejected)
    answer = await service.as_user(tenant["member"], "GetApproval", request)
    assert [e.action for e in answer.lifecycle] == ["approval.decide"]
    assert answer.approval.decided_by == tenant["admin"].user_id


async def test_members_see_what_they_asked_for_and_others_all_of_their_tenant(
    service: Approvals, tenant: Tenant
) -> None:
    elsewhere = await service.tenant()
    mine = (await service.open(tenant, [pending()], by="member")).approval_ids
    others = (await service.open(tenant, [pending()], by="other")).approval_ids
    foreign = (await service.open(elsewhere, [pending()])).approval_ids
    assert await listed(service, tenant, "member") == mine
    assert await listed(service, tenant, "admin") == mine + others
    assert await listed(service, elsewhere, "owner") == foreign
    for by, approval_id, seen in (
        ("member", mine[0], True),
        ("member", others[0], False),
        ("admin", others[0], True),
        ("owner", foreign[0], False),
        ("owner", ids.new_id(), False),
    ):
        request = pb.GetApprovalRequest(approval_id=approval_id)
        if seen:
            assert await service.as_user(tenant[by], "GetApproval", request)
        else:
            with pytest.raises(errors.NotFound):
                await service.as_user(tenant[by], "GetApproval", request)


async def test_the_queue_is_paged_oldest_first_and_calls_in_order(
    service: Approvals, tenant: Tenant
) -> None:
    expected: list[str] = []
    for _ in range(3):
        pause = await service.open(tenant, [pending(f"c{i}", index=i) for i in range(4)])
        expected += pause.approval_ids
    assert await listed(service, tenant, "admin", page_size=5) == expected
    assert await listed(service, tenant, "admin", page_size=12) == expected


async def test_filters(service: Approvals, tenant: Tenant) -> None:
    first = await service.open(tenant, [pending()])
    second = await service.open(tenant, [question()])
    await service.decide(tenant["admin"], first.run_id, [decision()])
    states = types_pb2
    for wanted, expected in (
        ({"state": states.APPROVAL_STATE_PENDING}, second),
        ({"state": states.APPROVAL_STATE_DECIDED}, first),
        ({"tool_name": "ask_human"}, second),
        ({"run_id": first.run_id}, first),
    ):
        assert await listed(service, tenant, "admin", **wanted) == expected.approval_ids
    assert len(await listed(service, tenant, "admin", agent="bot")) == 2
    assert await listed(service, tenant, "admin", agent="other") == []


async def test_the_approvals_of_a_run_that_has_none(service: Approvals, tenant: Tenant) -> None:
    known, foreign = ids.new_id(), ids.new_id()
    service.runs.add(known, tenant.id, tenant["member"].user_id)
    service.runs.add(foreign, ids.new_id(), tenant["member"].user_id)
    for by in ("member", "admin"):
        assert await listed(service, tenant, by, run_id=known) == []
    for by, run_id in (("other", known), ("admin", foreign), ("owner", ids.new_id())):
        with pytest.raises(errors.NotFound):
            await listed(service, tenant, by, run_id=run_id)
    # A run that has approvals, but none in this state, needs nobody to be asked about.
    pause = await service.open(tenant, [pending()])
    decided = {"run_id": pause.run_id, "state": types_pb2.APPROVAL_STATE_DECIDED}
    assert await listed(service, tenant, "member", **decided) == []
    with pytest.raises(errors.NotFound):
        await listed(service, tenant, "other", **decided)


@pytest.mark.parametrize(
    "bad",
    [
        {"page_size": 201},
        {"page_size": -1},
        {"page_token": "!"},
        {"page_token": "W10"},
        {"page_token": "WzEsMl0"},
        {"run_id": "x"},
        {"state": 99},
        {"tool_name": "a\x00"},
    ],
)
async def test_bad_filters(service: Approvals, tenant: Tenant, bad: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidRequest):
        await service.as_user(tenant["admin"], "ListApprovals", pb.ListApprovalsRequest(**bad))


async def test_a_bad_id(service: Approvals, tenant: Tenant) -> None:
    with pytest.raises(errors.InvalidRequest):
        await service.as_user(
            tenant["admin"], "GetApproval", pb.GetApprovalRequest(approval_id="x")
        )
