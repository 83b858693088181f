"""Every route: what it asks of the owners, and what it answers, held to the description."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict
from hango.approvals.v1 import approvals_pb2 as apb
from hango.common.v1 import types_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.runs.v1 import runs_pb2 as rpb

from tests.support.fake_owners import (
    A_PAGE,
    APPROVAL,
    EXACT,
    RUN,
    TENANT_ID,
    UNKNOWN,
    USERS,
    a_run,
    an_approval,
    at,
)
from tests.support.openapi import check

if TYPE_CHECKING:
    from tests.support.fake_owners import Edge

SPEC = b'{"name": "writer", "model": "m", "n": [9007199254740993, 1e400, 1.10]}'
AGENT = "/v1/agents/{name}"


async def ask(
    edge: Edge, method: str, route: str, user: str = "admin", status: int = 200, **more: Any
) -> Any:
    """The JSON that this route answers; the braces of the route are filled in."""
    path = route.format(
        name="writer", run_id=RUN, approval_id=APPROVAL, user_id=UNKNOWN, key_id=UNKNOWN
    )
    answer = await edge.ask(method, path, user, **more)
    assert answer.status_code == status, answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = (await edge.http.get("/openapi.json")).json()
    if status == 204:
        assert answer.content == b""
        return None
    return check(document, method, route, answer)


async def test_save_agent(edge: Edge) -> None:
    agent = await ask(edge, "PUT", AGENT, status=201, content=SPEC)
    assert agent["spec"]["n"][0] == 9007199254740993
    assert agent["warnings"] == ["a warning"]
    asked = edge.owners.last(rpb.SaveAgentRequest)
    assert (asked.name, asked.spec_json) == ("writer", SPEC)
    await ask(edge, "PUT", AGENT, content=SPEC)
    answer = await edge.ask("PUT", "/v1/agents/writer", content=SPEC)
    assert b'"spec":' + SPEC in answer.content


async def test_read_agents(edge: Edge) -> None:
    assert (await ask(edge, "GET", AGENT, "member"))["interrupt_on"] == {"*": True}
    assert edge.owners.last(rpb.GetAgentRequest).version == 0
    await ask(edge, "GET", AGENT, params={"version": 3})
    assert edge.owners.last(rpb.GetAgentRequest).version == 3
    page = await ask(edge, "GET", "/v1/agents", params={"page_size": 7, "page_token": "t"})
    assert page["next_page_token"] is None
    asked = edge.owners.last(rpb.ListAgentsRequest)
    assert (asked.page_size, asked.page_token) == (7, "t")


async def test_delete_agent(edge: Edge) -> None:
    await ask(edge, "DELETE", AGENT, status=204)
    assert edge.owners.last(rpb.DeleteAgentRequest).name == "writer"


async def test_tools(edge: Edge) -> None:
    tool = (await ask(edge, "GET", "/v1/tools", "member"))["items"][0]
    assert tool["parameters"]["n"] == 9007199254740993
    assert tool["unavailable"] == "its server cannot be reached"


async def test_start_run(edge: Edge) -> None:
    body = (
        b'{"agent":"writer","input": [ {"type":"text","n":1e400} ],"metadata":{"n":1.10},'
        b'"thread_id":"t-1","unknown":true}'
    )
    headers = {"Idempotency-Key": "k"}
    run = await ask(edge, "POST", "/v1/runs", "member", 202, content=body, headers=headers)
    assert run["state"] == "queued"
    asked = edge.owners.last(rpb.StartRunRequest)
    assert asked.input_json == b'[ {"type":"text","n":1e400} ]'
    assert asked.metadata_json == b'{"n":1.10}'
    assert (asked.agent, asked.thread_id, asked.idempotency_key) == ("writer", "t-1", "k")
    assert asked.request_digest == hashlib.sha256(body).digest()
    assert not asked.HasField("wait")


async def test_start_run_with_nothing_that_may_be_left_out(edge: Edge) -> None:
    body = {"agent": "writer", "input": "hi", "thread_id": None, "metadata": None}
    answer = await edge.ask("POST", "/v1/runs", json=body)
    assert answer.headers["location"] == f"/v1/runs/{RUN}"
    asked = edge.owners.last(rpb.StartRunRequest)
    assert (asked.input_json, asked.metadata_json) == (b'"hi"', b"")
    assert not asked.HasField("thread_id")


async def test_start_run_and_wait(edge: Edge) -> None:
    body = {"agent": "writer", "input": "hi"}
    for wait, seconds in (("30s", 30), ("1500ms", 1.5), ("5m", 60)):
        run = await ask(edge, "POST", "/v1/runs", status=202, json=body, params={"wait": wait})
        assert run["state"] == "awaiting_approval"
        asked = edge.owners.last(rpb.GetRunRequest)
        assert asked.run_id == RUN
        assert asked.wait.ToTimedelta().total_seconds() == seconds


async def test_wait_answers_with_the_started_run_where_nobody_can_tell_more(edge: Edge) -> None:
    edge.owners.run = a_run(id=UNKNOWN)
    edge.owners.refuse["GetRun"] = RuntimeError()
    body = {"agent": "writer", "input": "hi"}
    run = await ask(edge, "POST", "/v1/runs", status=202, json=body, params={"wait": "30s"})
    assert run["state"] == "queued"


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b"", [""]),
        (b"[]", [""]),
        (b'{"agent":"a","agent":"b","input":""}', [""]),
        (b"{}", ["/agent", "/input"]),
        (b'{"agent":1,"input":"x"}', ["/agent"]),
        (b'{"agent":"\\ud800","input":"x"}', ["/agent"]),
        (b'{"agent":"a","input":"x","metadata":[]}', ["/metadata"]),
        (b'{"agent":"a","input":"x","thread_id":5}', ["/thread_id"]),
    ],
)
async def test_start_run_with_a_bad_body(edge: Edge, body: bytes, pointers: list[str]) -> None:
    problem = await ask(edge, "POST", "/v1/runs", status=400, content=body)
    assert [e["pointer"] for e in problem["errors"]] == pointers


@pytest.mark.parametrize("given", ["5", "null", '{"type":"text"}', '["x"]'])
async def test_start_run_with_a_bad_input(edge: Edge, given: str) -> None:
    body = f'{{"agent":"a","input":{given}}}'
    problem = await ask(edge, "POST", "/v1/runs", status=400, content=body)
    assert problem["errors"]
    assert all(e["pointer"].startswith("/input") for e in problem["errors"])


@pytest.mark.parametrize("wait", ["", "30", "soon", "-1s", "1e400s"])
async def test_start_run_with_a_bad_wait(edge: Edge, wait: str) -> None:
    body = {"agent": "writer", "input": "hi"}
    problem = await ask(edge, "POST", "/v1/runs", status=400, json=body, params={"wait": wait})
    assert problem["errors"][0]["pointer"] == "/wait"


async def test_read_runs(edge: Edge) -> None:
    failed = a_run(
        state=types_pb2.RUN_STATE_FAILED,
        thread_id="t",
        output_json=b'"bye"',
        failure=rpb.Failure(reason="approval_expired", message="approval expired"),
        finished_at=at(5),
    )
    waiting = await ask(edge, "GET", "/v1/runs/{run_id}", "member")
    assert waiting["state"] == "awaiting_approval"
    assert (waiting["thread_id"], waiting["output"], waiting["failure"]) == (None, None, None)
    assert waiting["created_at"] == "2025-06-15T15:06:40Z"
    edge.owners.run = failed
    run = await ask(edge, "GET", "/v1/runs/{run_id}")
    assert run["failure"] == {"reason": "approval_expired", "message": "approval expired"}
    assert (run["output"], run["finished_at"]) == ("bye", "2025-06-15T15:06:45Z")
    filters = {"state": "awaiting_approval", "agent": "a", "thread_id": "t", "later": "x"}
    page = await ask(edge, "GET", "/v1/runs", params=filters)
    assert page["next_page_token"] == A_PAGE
    asked = edge.owners.last(rpb.ListRunsRequest)
    assert asked.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
    assert (asked.agent, asked.thread_id, asked.page_size) == ("a", "t", 50)


async def test_cancel(edge: Edge) -> None:
    headers = {"Idempotency-Key": "k"}
    run = await ask(edge, "POST", "/v1/runs/{run_id}/cancel", headers=headers)
    assert run["state"] == "cancelled"
    asked = edge.owners.last(rpb.CancelRunRequest)
    assert (asked.idempotency_key, asked.request_digest) == ("k", hashlib.sha256(b"").digest())


async def test_messages_show_what_the_model_wrote(edge: Edge) -> None:
    """Case 41."""
    calls = [
        rpb.ToolCall(id="c1", name="bank__pay", arguments_raw=EXACT),
        rpb.ToolCall(id="c2", name="bank__pay", arguments_raw=b'{"a":1,"a":2}'),
        rpb.ToolCall(id="c3", name="bank__pay", arguments_raw=b'{"a":NaN, "b": "\\u0000'),
        rpb.ToolCall(id="c4", name="x", arguments_raw="\ud800".encode("utf-8", "surrogatepass")),
        rpb.ToolCall(id="c5", name="x", arguments_raw=b"\xff"),
        rpb.ToolCall(id="c6", name="x", arguments_raw=b""),
    ]
    edge.owners.messages = [
        rpb.Message(
            seq=1, role="assistant", content_json=b'"hi"', tool_calls=calls, created_at=at()
        ),
        rpb.Message(
            seq=2, role="tool", content_json=b'"no"', tool_call_id="c1", is_error=True,
            tool_name="bank__pay", subagent_call_id="c0", created_at=at(),
        ),
    ]  # fmt: skip
    page = await ask(edge, "GET", "/v1/runs/{run_id}/messages")
    first, second = page["items"]
    found = [(c["id"], c["arguments"] is None, c["arguments_raw"]) for c in first["tool_calls"]]
    assert found == [
        ("c1", False, EXACT.decode()),
        ("c2", True, '{"a":1,"a":2}'),
        ("c3", True, '{"a":NaN, "b": "\\u0000'),
        ("c4", True, "\ud800"),
        ("c5", True, "\ufffd"),
        ("c6", True, ""),
    ]
    assert (first["tool_call_id"], first["subagent_call_id"]) == (None, None)
    assert (second["tool_call_id"], second["subagent_call_id"]) == ("c1", "c0")
    answer = await edge.ask("GET", f"/v1/runs/{RUN}/messages")
    assert b'"arguments":' + EXACT in answer.content


async def test_pending_approval(edge: Edge) -> None:
    page = await ask(edge, "GET", "/v1/approvals", "member")
    approval = page["items"][0]
    undecided = ("decision", "decision_args", "decision_message", "decided_by", "decided_at")
    assert [approval[name] for name in undecided] == [None] * 5
    assert (approval["subagent_call_id"], approval["subagent_path"]) == (None, "")
    assert approval["execution"] == {"state": "none", "at": None}
    assert approval["kind"] == "tool_call"
    assert approval["allowed_decisions"] == ["approve", "edit"]
    assert approval["arguments"]["n"] == 9007199254740993
    assert approval["arguments_raw"] == EXACT.decode()
    assert approval["arguments_sha256"] == hashlib.sha256(EXACT).hexdigest()
    answer = await edge.ask("GET", "/v1/approvals")
    assert b'"arguments":' + EXACT in answer.content
    assert b'"gt": 1e400' in answer.content


async def test_decided_approval(edge: Edge) -> None:
    edge.owners.approval = an_approval(
        kind=types_pb2.APPROVAL_KIND_INPUT,
        state=types_pb2.APPROVAL_STATE_DECIDED,
        decision=types_pb2.DECISION_KIND_RESPOND,
        decision_message="",
        decision_value_json=b"[1.10]",
        decided_by=USERS["admin"],
        decided_at=at(9),
        subagent_call_id="c0",
        subagent_path="0.1/2.0",
        input_json=b'{"payload":{"q":"?"},"schema":{"type":"array"}}',
        execution_at=at(10),
    )
    edge.owners.approval.execution_state = types_pb2.EXECUTION_STATE_SKIPPED
    found = await ask(edge, "GET", "/v1/approvals/{approval_id}")
    assert found["input"] == {"payload": {"q": "?"}, "schema": {"type": "array"}}
    assert (found["decision"], found["decision_message"]) == ("respond", "")
    assert found["execution"] == {"state": "skipped", "at": "2025-06-15T15:06:50Z"}
    assert [a["id"] for a in found["batch"]] == [APPROVAL]
    assert found["lifecycle"][0]["action"] == "approval.expire"
    assert found["lifecycle"][0]["actor_id"] is None


async def test_filters_of_approvals(edge: Edge) -> None:
    filters = {"state": "pending", "tool": "t", "agent": "a", "run_id": RUN, "page_size": 200}
    await ask(edge, "GET", "/v1/approvals", params={**filters, "page_token": A_PAGE})
    asked = MessageToDict(edge.owners.last(apb.ListApprovalsRequest))
    assert asked == {
        "state": "APPROVAL_STATE_PENDING",
        "toolName": "t",
        "agent": "a",
        "runId": RUN,
        "pageSize": 200,
        "pageToken": A_PAGE,
    }
    await ask(edge, "GET", "/v1/runs/{run_id}/approvals", params={"state": "decided"})
    asked = MessageToDict(edge.owners.last(apb.ListApprovalsRequest))
    assert asked == {"state": "APPROVAL_STATE_DECIDED", "runId": RUN, "pageSize": 50}
    problem = await ask(edge, "GET", "/v1/approvals", status=400, params={"page_token": "x"})
    assert problem["errors"][0]["pointer"] == "/page_token"


async def test_audit(edge: Edge) -> None:
    filters = {"run_id": RUN, "target_id": "writer", "action": "agent.save", "actor_id": UNKNOWN}
    page = await ask(edge, "GET", "/v1/audit", params=filters)
    assert page["items"][0]["trace_id"] is None
    asked = MessageToDict(edge.owners.last(apb.ListAuditEventsRequest))
    assert asked == {
        "runId": RUN,
        "targetId": "writer",
        "action": "agent.save",
        "actorId": UNKNOWN,
        "pageSize": 50,
    }
    exported = await edge.ask("GET", "/v1/audit/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    [line] = exported.text.splitlines()
    assert json.loads(line)["seq"] == page["items"][0]["seq"]
    check = await ask(edge, "GET", "/v1/audit/verify")
    assert check == {
        "ok": False,
        "checked": 3,
        "problems": [{"seq": 2, "problem": "is missing"}],
    }


async def test_users(edge: Edge) -> None:
    body = {"name": "ann", "role": "admin"}
    user = await ask(edge, "POST", "/v1/users", status=201, json=body)
    assert user["role"] == "admin"
    assert (await ask(edge, "GET", "/v1/users"))["next_page_token"] == A_PAGE
    user = await ask(edge, "PATCH", "/v1/users/{user_id}", json={"disabled": True})
    assert user["disabled"] is True
    asked = edge.owners.last(ipb.UpdateUserRequest)
    assert (asked.user_id, asked.role, asked.disabled) == (UNKNOWN, 0, True)
    await ask(edge, "PATCH", "/v1/users/{user_id}", json={"role": "owner", "disabled": None})
    assert not edge.owners.last(ipb.UpdateUserRequest).HasField("disabled")


async def test_keys(edge: Edge) -> None:
    body = {"user_id": UNKNOWN, "name": "ci", "expires_at": "2030-01-01T02:00:00+02:00"}
    key = await ask(edge, "POST", "/v1/api-keys", status=201, json=body)
    assert key["secret"] == "hk_abcdef"
    asked = edge.owners.last(ipb.CreateApiKeyRequest)
    assert asked.expires_at.ToJsonString() == "2030-01-01T00:00:00Z"
    page = await ask(edge, "GET", "/v1/api-keys")
    assert "secret" not in page["items"][0]
    await ask(edge, "DELETE", "/v1/api-keys/{key_id}", status=204)
    assert edge.owners.last(ipb.RevokeApiKeyRequest).api_key_id == UNKNOWN


@pytest.mark.parametrize(
    ("method", "route", "body", "pointer"),
    [
        ("POST", "/v1/users", {"name": "a"}, "/role"),
        ("POST", "/v1/users", {"name": "a", "role": "king"}, "/role"),
        ("POST", "/v1/users", {"name": 1, "role": "admin"}, "/name"),
        ("PATCH", "/v1/users/{user_id}", {"disabled": "yes"}, "/disabled"),
        ("PATCH", "/v1/users/{user_id}", [], ""),
        ("POST", "/v1/api-keys", {"user_id": "x", "name": "a"}, "/user_id"),
        (
            "POST",
            "/v1/api-keys",
            {"user_id": UNKNOWN, "name": "a", "expires_at": "2030-01-01T00:00:00"},
            "/expires_at",
        ),
        (
            "POST",
            "/v1/api-keys",
            {"user_id": UNKNOWN, "name": "a", "expires_at": 1893456000},
            "/expires_at",
        ),
        ("PATCH", "/v1/tenant", {"require_second_party": 1}, "/require_second_party"),
    ],
)
async def test_bad_bodies(edge: Edge, method: str, route: str, body: Any, pointer: str) -> None:
    problem = await ask(edge, method, route, "owner", 400, json=body)
    assert [e["pointer"] for e in problem["errors"]] == [pointer]


async def test_tenant(edge: Edge) -> None:
    assert (await ask(edge, "GET", "/v1/tenant", "member"))["id"] == TENANT_ID
    body = {"require_second_party": True}
    tenant = await ask(edge, "PATCH", "/v1/tenant", "owner", json=body)
    assert tenant["require_second_party"] is True
    await ask(edge, "PATCH", "/v1/tenant", "owner", json={})
    assert not edge.owners.last(ipb.UpdateTenantRequest).HasField("require_second_party")


async def test_caller(edge: Edge) -> None:
    assert await ask(edge, "GET", "/v1/caller", "member") == {
        "tenant_id": TENANT_ID,
        "tenant": "demo",
        "user_id": USERS["member"],
        "user_name": "member",
        "role": "member",
    }
