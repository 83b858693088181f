"""The tenant's stream: live, whole approvals, for those who see all of the tenant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2 as rpb
from hango_gateway import streams
from hango_platform import errors
from hango_platform.bus import subjects
from hango_platform.telemetry.metrics import Metrics

from tests.support.fake_owners import (
    APPROVAL,
    EXACT,
    RUN,
    SUSPENSION,
    UNKNOWN,
    USERS,
    a_run,
    an_approval,
    at,
)
from tests.support.streams import metric, streaming
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from hango_platform.bus.jetstream import Bus

    from tests.support.fake_owners import Edge

PATH = "/v1/events"
AT = "2025-06-15T15:06:40Z"


def announce(bus: Bus, kind: str, tenant: str = "demo", **body: Any) -> None:
    """What an owner publishes: ids and times."""
    payload = {"run_id": RUN, "approval_id": APPROVAL, "at": AT, **body}
    bus.hint(subjects.event(tenant, kind), json.dumps(payload).encode())


async def test_an_approval_as_it_comes_and_goes(edge: Edge, bus: Bus) -> None:
    async with streaming(edge, PATH) as stream:
        announce(bus, "approval.requested")
        event = await stream.next()
        assert event is not None
        assert event["event"] == "approval.requested"
        assert "id" not in event
        assert f'"arguments":{EXACT.decode()}' in event["data"]
        assert json.loads(event["data"]) == {
            "run_id": RUN,
            "at": AT,
            "approval_id": APPROVAL,
            "suspension_id": SUSPENSION,
            "tool_call_id": "c1",
            "tool_name": "bank__pay",
            "kind": "tool_call",
            "arguments": json.loads(EXACT),
            "allowed_decisions": ["approve", "edit"],
            "expires_at": "2025-06-15T16:06:40Z",
            "subagent_call_id": None,
        }
        edge.owners.approval = an_approval(
            state=types_pb2.APPROVAL_STATE_DECIDED,
            decision=types_pb2.DECISION_KIND_APPROVE,
            decided_by=USERS["admin"],
            decided_at=at(),
        )
        announce(bus, "approval.decided")
        event = await stream.next()
        assert event is not None
        data = json.loads(event["data"])
        assert (event["event"], data["decision"]) == ("approval.decided", "approve")
        assert data["decided_by"] == USERS["admin"]
        for kind in ("approval.expired", "approval.withdrawn"):
            announce(bus, kind)
            event = await stream.next()
            assert event is not None
            assert event["event"] == kind
            assert "decision" not in json.loads(event["data"])


async def test_a_run_that_ends(edge: Edge, bus: Bus) -> None:
    edge.owners.run = a_run(
        state=types_pb2.RUN_STATE_FAILED,
        failure=rpb.Failure(reason="internal", message="it failed"),
    )
    async with streaming(edge, PATH, "owner") as stream:
        announce(bus, "run.cancelled")
        announce(bus, "run.resume")
        announce(bus, "run.finished")
        event = await stream.next()
    assert event is not None
    assert event["event"] == "run.finished"
    assert json.loads(event["data"]) == {
        "run_id": RUN,
        "at": AT,
        "state": "failed",
        "failure": {"reason": "internal", "message": "it failed"},
    }


async def test_what_is_no_event_of_this_tenant_is_passed_over(edge: Edge, bus: Bus) -> None:
    async with streaming(edge, PATH) as stream:
        announce(bus, "approval.requested", tenant="demo-b")
        announce(bus, "approval.requested", approval_id=UNKNOWN)
        for payload in (b"", b"[]", b"{}", b"\xff", b'"x"'):
            bus.hint(subjects.event("demo", "approval.requested"), payload)
        announce(bus, "approval.decided")
        event = await stream.next()
    assert event is not None
    assert event["event"] == "approval.decided"


async def test_members_and_others(edge: Edge) -> None:
    assert (await edge.ask("GET", PATH, "member")).status_code == 403
    assert (await edge.ask("GET", PATH, "nobody")).status_code == 401
    answer = await edge.ask("HEAD", PATH)
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_another_tenant_s_owner_sees_none_of_it(edge: Edge, bus: Bus) -> None:
    """Even if a message bore his tenant's name: the owner is asked on his behalf."""
    async with streaming(edge, PATH, "b-owner") as stream:
        announce(bus, "approval.requested", tenant="demo-b")
        announce(bus, "run.finished", tenant="demo-b")

        async def asked() -> bool:
            return any(isinstance(r, rpb.GetRunRequest) for r in edge.owners.asked)

        await eventually(asked)
        edge.owners.revoked.add("b-owner")
        assert await stream.next() is None


async def test_an_owner_that_is_away_delays_and_loses_nothing(edge: Edge, bus: Bus) -> None:
    edge.owners.refuse["GetApproval"] = errors.Unavailable()
    async with streaming(edge, PATH) as stream:
        announce(bus, "approval.requested")

        async def asked() -> bool:
            return any(isinstance(r, apb.GetApprovalRequest) for r in edge.owners.asked)

        await eventually(asked)
        edge.owners.refuse.clear()
        event = await stream.next()
    assert event is not None
    assert event["event"] == "approval.requested"


async def test_a_stream_leaves_nothing(edge: Edge) -> None:
    async with streaming(edge, PATH):
        assert await metric(edge, 'hango_streams{kind="tenant"}') == 1

    async def none_open() -> bool:
        return await metric(edge, 'hango_streams{kind="tenant"}') == 0

    await eventually(none_open)


@pytest.fixture
def feed() -> Any:
    """Streams without a server around them."""
    nobody: Any = None
    return streams.TenantStreams(nobody, nobody, Metrics())


async def test_a_client_that_is_too_slow_is_sent_away(feed: Any) -> None:
    payload = json.dumps({"run_id": RUN, "approval_id": APPROVAL, "at": AT}).encode()
    with feed._listening("demo") as slow, feed._listening("demo") as quick:
        for _ in range(streams._BUFFER + 1):
            feed.hear("hango.demo.approval.decided.v1", payload)
            assert await quick.take() is not None
        assert slow.ended
        assert not quick.ended
        assert len(slow._kept) <= streams._BUFFER + 1


async def test_after_the_bus_was_away_clients_are_to_refetch(feed: Any) -> None:
    with feed._listening("demo") as buffer:
        feed.connected()
        assert not buffer.ended
        feed.connected()
        assert buffer.ended
    assert not feed._buffers
