"""Every row of the contract's section 5, and its stream, over HTTP on the real services."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hango_platform import ids
from httpx_sse import aconnect_sse

from tests.support.stack import Stack, running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer


def _call(call_id: str, **arguments: Any) -> dict[str, Any]:
    given = {"path": f"/out/{call_id}.txt", "content": "x", **arguments}
    return {"id": call_id, "name": "write_file", "arguments": given}


def _agent(name: str, calls: list[dict[str, Any]], rule: Any = True) -> dict[str, Any]:
    turns = [{"tool_calls": calls}, {"text": "done"}]
    return {
        "name": name,
        "model": {"provider": "scripted", "turns": turns},
        "interrupt_on": {"write_file": rule},
    }


IN_OUT = {
    "allowed_decisions": ["approve", "edit", "reject"],
    "when": {"arg": "path", "under": "/out"},
}
QUESTION = {"question": "which?", "schema": {"type": "integer", "minimum": 1}}
AGENTS = {
    "one": _agent("one", [_call("c1")]),
    "two": _agent("two", [_call("c1"), _call("c2")]),
    "ruled": _agent("ruled", [_call("c1")], IN_OUT),
    "free": _agent("free", [_call("c1")], {"when": {"arg": "path", "equals": "/never"}}),
    "asks": {
        "name": "asks",
        "model": {
            "provider": "scripted",
            "turns": [
                {"tool_calls": [{"id": "q1", "name": "ask_human", "arguments": QUESTION}]},
                {"text": "done"},
            ],
        },
    },
}


class Http:
    """The REST API as one of the stack's users."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._client = httpx.AsyncClient(base_url=stack.http, timeout=30)

    def headers(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._stack.users[user].key}"}

    async def send(
        self, method: str, path: str, body: Any = None, user: str = "admin", **headers: str
    ) -> httpx.Response:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        return await self._client.request(
            method, path, content=content, headers={**self.headers(user), **headers}
        )

    async def paused(self, agent: str, user: str = "admin") -> dict[str, Any]:
        """A new run that waits for a person."""
        body = {"agent": agent, "input": "go"}
        answer = await self.send("POST", "/v1/runs?wait=30s", body, user)
        assert answer.status_code == 202, answer.text
        run: dict[str, Any] = answer.json()
        assert run["state"] == "awaiting_approval", run
        return run

    async def decide(
        self, run_id: str, body: Any, user: str = "admin", **headers: str
    ) -> httpx.Response:
        return await self.send("POST", f"/v1/runs/{run_id}/approvals", body, user, **headers)

    async def pending(self, run_id: str) -> list[dict[str, Any]]:
        answer = await self.send("GET", f"/v1/runs/{run_id}/approvals?state=pending")
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    async def ended(self, run_id: str) -> dict[str, Any]:
        async def over() -> dict[str, Any] | None:
            run: dict[str, Any] = (await self.send("GET", f"/v1/runs/{run_id}")).json()
            return run if run["finished_at"] else None

        return await eventually(over, timeout=20, what="the end of the run")

    async def close(self) -> None:
        await self._client.aclose()


@pytest.fixture(scope="module")
async def http(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[Http]:
    """The services with the gateway, and the agents saved."""
    async with running_stack(postgres_server, nats_server) as stack:
        await stack.start_gateway()
        found = Http(stack)
        for name, spec in AGENTS.items():
            answer = await found.send("PUT", f"/v1/agents/{name}", spec)
            assert answer.status_code == 201, answer.text
        yield found
        await found.close()


def _refused(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"/problems/{slug}"
    assert problem["reason"] == slug.upper().replace("-", "_")
    assert problem["status"] == status
    return problem


def _one(decision: Any, **more: Any) -> dict[str, Any]:
    return {"decisions": [{"tool_call_id": "c1", "decision": decision, **more}]}


async def test_all_well(http: Http) -> None:
    """200 with run, suspension, approvals and the event that wakes the run; it ends."""
    run = await http.paused("one")
    answer = await http.decide(run["id"], _one("approve"))
    assert answer.status_code == 200
    body = answer.json()
    assert body["run_id"] == run["id"]
    assert body["suspension_id"] == run["suspension_id"]
    assert ids.is_id(body["resume_event_id"])
    [approval] = body["approvals"]
    assert (approval["state"], approval["decision"]) == ("decided", "approve")
    assert (await http.ended(run["id"]))["state"] == "succeeded"


@pytest.mark.parametrize("decisions", [[], [{"tool_call_id": "c2", "decision": "approve"}]])
async def test_some_are_left(http: Http, decisions: list[Any]) -> None:
    """409 with what remains; nothing is stored, and a right request works."""
    run = await http.paused("two")
    problem = _refused(
        await http.decide(run["id"], {"decisions": decisions}), 409, "approvals-incomplete"
    )
    named = {d["tool_call_id"] for d in decisions}
    assert [r["tool_call_id"] for r in problem["remaining"]] == [
        c for c in ("c1", "c2") if c not in named
    ]
    assert all({"approval_id", "tool_call_id", "tool_name"} == set(r) for r in problem["remaining"])
    pending = await http.pending(run["id"])
    assert len(pending) == 2
    right = [{"approval_id": a["id"], "decision": "reject"} for a in pending]
    assert (await http.decide(run["id"], {"decisions": right})).status_code == 200


async def test_closed(http: Http) -> None:
    """409 for what was decided before, for a run that never paused, and for one that is over."""
    run = await http.paused("one")
    assert (await http.decide(run["id"], _one("approve"))).status_code == 200
    problem = _refused(await http.decide(run["id"], _one("approve")), 409, "approvals-closed")
    assert problem["state"] == "decided"
    free = (await http.send("POST", "/v1/runs?wait=30s", {"agent": "free", "input": "go"})).json()
    problem = _refused(await http.decide(free["id"], _one("approve")), 409, "approvals-closed")
    assert problem["state"] == "succeeded"


async def test_cancelled(http: Http) -> None:
    """409 after a cancel: the approvals are withdrawn before it answers."""
    run = await http.paused("one")
    assert (await http.send("POST", f"/v1/runs/{run['id']}/cancel")).status_code == 200
    problem = _refused(await http.decide(run["id"], _one("approve")), 409, "approvals-closed")
    assert problem["state"] == "withdrawn"
    _refused(await http.send("POST", f"/v1/runs/{run['id']}/cancel"), 409, "run-finished")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (_one(None), "/decisions/0/decision"),
        (_one("maybe"), "/decisions/0/decision"),
        ({"decisions": [{"tool_call_id": "c1"}]}, "/decisions/0/decision"),
        ({"decisions": [{"tool_call_id": "nobody", "decision": "approve"}]}, "/decisions/0"),
        (_one("edit"), "/decisions/0/args"),
        (_one("approve", args={}), "/decisions/0/args"),
        (_one("reject", message=5), "/decisions/0/message"),
        ({"decisions": _one("approve")["decisions"] * 2}, "/decisions/1"),
        (b"{", ""),
        (b"[]", ""),
        (b'{"decisions": [], "decisions": []}', ""),
    ],
)
async def test_malformed(http: Http, body: Any, pointer: str) -> None:
    """400 with pointers; the call is still pending, and a right request works."""
    run = await http.paused("one")
    problem = _refused(await http.decide(run["id"], body), 400, "invalid-request")
    assert any(e["pointer"].startswith(pointer) for e in problem["errors"]), problem
    assert len(await http.pending(run["id"])) == 1
    assert (await http.decide(run["id"], _one("approve"))).status_code == 200


async def test_what_a_rule_refuses(http: Http) -> None:
    """400 for a decision that is not allowed, an edit that breaks the schema or leaves the rule."""
    run = await http.paused("ruled")
    problem = _refused(
        await http.decide(run["id"], _one("respond", message="x")), 400, "decision-not-allowed"
    )
    assert problem["allowed"] == ["approve", "edit", "reject"]
    for args in ({"path": "/out/x"}, {"path": "/out/x", "content": 5}, {"path": 1, "content": "x"}):
        problem = _refused(
            await http.decide(run["id"], _one("edit", args=args)), 400, "edit-invalid"
        )
        assert all("args" in e["pointer"] for e in problem["errors"])
    outside = {"path": "/elsewhere", "content": "x"}
    _refused(await http.decide(run["id"], _one("edit", args=outside)), 400, "edit-out-of-scope")
    other_tool = _one("edit", args=outside, tool_name="delete_file")
    _refused(await http.decide(run["id"], other_tool), 400, "edit-out-of-scope")
    changed = _one("approve", arguments_sha256="0" * 64)
    _refused(await http.decide(run["id"], changed), 409, "arguments-changed")
    inside = {"path": "/out/other.txt", "content": "y"}
    assert (await http.decide(run["id"], _one("edit", args=inside))).status_code == 200
    await http.ended(run["id"])
    messages = (await http.send("GET", f"/v1/runs/{run['id']}/messages")).json()["items"]
    assert messages[1]["tool_calls"][0]["arguments"]["path"] == "/out/c1.txt"
    assert "/out/other.txt" in messages[2]["content"]


async def test_an_answer(http: Http) -> None:
    """400 for an answer that breaks the question's schema; a right one reaches the model."""
    run = await http.paused("asks")
    [question] = await http.pending(run["id"])
    assert (question["kind"], question["input"]["payload"]["question"]) == ("input", "which?")
    wrong = {"decisions": [{"tool_call_id": "q1", "decision": "respond", "value": 0}]}
    _refused(await http.decide(run["id"], wrong), 400, "answer-invalid")
    right = {
        "decisions": [{"tool_call_id": "q1", "decision": "respond", "value": 9007199254740993}]
    }
    assert (await http.decide(run["id"], right)).status_code == 200
    await http.ended(run["id"])
    messages = (await http.send("GET", f"/v1/runs/{run['id']}/messages")).json()["items"]
    assert messages[2]["content"] == "9007199254740993"


async def test_who_may_not(http: Http) -> None:
    """401, 403 for a member whatever the id, 404 alike for unknown and another tenant's."""
    run = await http.paused("one", user="member")
    answer = await http.send(
        "POST", f"/v1/runs/{run['id']}/approvals", _one("approve"), Authorization=""
    )
    _refused(answer, 401, "unauthenticated")
    unknown = ids.new_id()
    for run_id in (run["id"], unknown):
        for user in ("member", "other-member", "b-member"):
            _refused(await http.decide(run_id, _one("approve"), user), 403, "not-an-approver")
    theirs = _refused(await http.decide(run["id"], _one("approve"), "b-owner"), 404, "not-found")
    nobodys = _refused(await http.decide(unknown, _one("approve")), 404, "not-found")
    assert theirs == nobodys
    assert (await http.send("GET", f"/v1/runs/{run['id']}/approvals", user="member")).json()[
        "items"
    ]
    hidden = await http.send("GET", f"/v1/runs/{run['id']}/approvals", user="other-member")
    _refused(hidden, 404, "not-found")


async def test_the_decider_is_the_caller(http: Http) -> None:
    """Case 25: a body that names somebody else is not heard."""
    run = await http.paused("one")
    body = {**_one("approve", decided_by=ids.new_id()), "decided_by": ids.new_id()}
    [approval] = (await http.decide(run["id"], body)).json()["approvals"]
    me = (await http.send("GET", "/v1/caller")).json()
    assert approval["decided_by"] == me["user_id"]


async def test_a_repeat_with_its_key(http: Http) -> None:
    """The winner who repeats gets his 200 again; another body under the key is 422."""
    run = await http.paused("one")
    key = {"Idempotency-Key": "k-1"}
    first = await http.decide(run["id"], _one("approve"), **key)
    again = await http.decide(run["id"], _one("approve"), **key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    other = await http.decide(run["id"], _one("reject"), **key)
    _refused(other, 422, "idempotency-mismatch")


async def test_one_stream_sees_it_all(http: Http) -> None:
    """Requested, decided and the rest on one connection, in the story's order, without gaps."""
    run = await http.paused("two")
    seen: list[tuple[int, str]] = []
    paused = asyncio.Event()

    async def follow() -> None:
        path = f"{http._stack.http}/v1/runs/{run['id']}/events"
        async with (
            httpx.AsyncClient(timeout=30) as client,
            aconnect_sse(client, "GET", path, headers=http.headers("admin")) as source,
        ):
            async for event in source.aiter_sse():
                if not event.data:
                    continue  # the `retry` line; by the standard this is no event
                seen.append((int(event.id), event.event))
                if event.event == "run.suspended":
                    paused.set()

    following = asyncio.create_task(follow())
    await asyncio.wait_for(paused.wait(), 20)
    decisions = [
        {"approval_id": a["id"], "decision": "approve"} for a in await http.pending(run["id"])
    ]
    assert (await http.decide(run["id"], {"decisions": decisions})).status_code == 200
    await asyncio.wait_for(following, 20)
    assert [n for n, _ in seen] == list(range(1, len(seen) + 1))
    kinds = [kind for _, kind in seen]
    story = [k for k in kinds if k.startswith(("approval.", "run."))]
    assert story == [
        "run.queued",
        "run.started",
        "approval.requested",
        "approval.requested",
        "run.suspended",
        "approval.decided",
        "approval.decided",
        "run.resumed",
        "run.finished",
    ]
