"""The routes of threads, checkpoints and forks, held to the description."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from hango.runs.v1 import history_pb2 as pb
from hango.runs.v1 import runs_pb2 as rpb

from tests.support.fake_owners import A_PAGE, APPROVAL, EXACT, RUN, UNKNOWN, at
from tests.support.openapi import check

if TYPE_CHECKING:
    from tests.support.fake_owners import Edge

FORK = "/v1/runs/{run_id}/fork"
POINT = "/v1/runs/{run_id}/checkpoints/{checkpoint_id}"


async def ask(
    edge: Edge, method: str, route: str, user: str = "member", status: int = 200, **more: Any
) -> Any:
    """The JSON that this route answers; the braces of the route are filled in."""
    path = route.format(run_id=RUN, checkpoint_id=APPROVAL, other_run_id=UNKNOWN, thread_id="t-1")
    answer = await edge.ask(method, path, user, **more)
    assert answer.status_code == status, answer.text
    return check((await edge.http.get("/openapi.json")).json(), method, route, answer)


async def test_threads(edge: Edge) -> None:
    page = await ask(edge, "GET", "/v1/threads", params={"page_size": 7, "page_token": "t"})
    assert page["next_page_token"] == A_PAGE
    asked = edge.owners.last(pb.ListThreadsRequest)
    assert (asked.page_size, asked.page_token) == (7, "t")
    thread = await ask(edge, "GET", "/v1/threads/{thread_id}")
    assert (thread["id"], thread["runs"], thread["live_run_id"]) == ("t-1", 2, None)
    assert page["items"] == [thread]
    assert (await edge.ask("GET", "/v1/threads/a%20b")).status_code == 404
    assert edge.owners.last(pb.GetThreadRequest).thread_id == "a b"
    assert (await edge.ask("GET", f"/v1/threads/{'x' * 129}")).status_code == 400


async def test_the_messages_of_a_thread(edge: Edge) -> None:
    edge.owners.messages = [
        rpb.Message(seq=1, role="user", content_json=b'"hi"', created_at=at()),
    ]
    page = await ask(edge, "GET", "/v1/threads/{thread_id}/messages")
    (message,) = page["items"]
    assert (message["run_id"], message["seq"], message["content"]) == (RUN, 1, "hi")


async def test_checkpoints(edge: Edge) -> None:
    page = await ask(edge, "GET", "/v1/runs/{run_id}/checkpoints")
    (point,) = page["items"]
    assert (point["checkpoint_id"], point["next"], point["message_count"]) == (APPROVAL, "tools", 2)
    state = await ask(edge, "GET", POINT)
    assert state["pending_calls"][0]["arguments"]["n"] == 9007199254740993
    assert state["pending_calls"][0]["ruling"] == "gated"
    assert state["todos"] == [{"content": "pay", "status": "pending"}]
    assert edge.owners.last(pb.GetCheckpointRequest).page_size == 200
    await ask(edge, "GET", "/v1/runs/{run_id}/messages", params={"checkpoint_id": APPROVAL})
    assert edge.owners.last(rpb.ListMessagesRequest).checkpoint_id == APPROVAL


async def test_fork(edge: Edge) -> None:
    edits = b'{"c1": {"args": {"n":1e400,"d": 1.10}}}'
    body = b'{"checkpoint_id":"%s","edit_calls":%s}' % (APPROVAL.encode(), edits)
    run = await ask(edge, "POST", FORK, status=202, content=body, headers={"Idempotency-Key": "k"})
    assert (run["id"], run["forked_from"], run["state"]) == (UNKNOWN, RUN, "queued")
    assert run["effects_before"] == [
        {"run_id": RUN, "tool_call_id": "c0", "tool_name": "bank__pay", "state": "unknown"}
    ]
    assert run["effects_after"] == []
    asked = edge.owners.last(pb.ForkRunRequest)
    assert (asked.run_id, asked.checkpoint_id, asked.idempotency_key) == (RUN, APPROVAL, "k")
    assert dict(asked.edit_calls) == {"c1": b'{"n":1e400,"d": 1.10}'}
    assert asked.request_digest == hashlib.sha256(body).digest()
    assert not asked.HasField("input_json")


async def test_fork_with_an_input(edge: Edge) -> None:
    content = f'{{"checkpoint_id":"{APPROVAL}","input": [{{"type":"text","n":1e400}}]}}'
    answer = await edge.ask("POST", FORK.format(run_id=RUN), content=content)
    assert answer.headers["location"] == f"/v1/runs/{UNKNOWN}"
    assert edge.owners.last(pb.ForkRunRequest).input_json == b'[{"type":"text","n":1e400}]'
    nothing = {"checkpoint_id": APPROVAL, "input": None, "edit_calls": None}
    await ask(edge, "POST", FORK, status=202, json=nothing)
    assert not edge.owners.last(pb.ForkRunRequest).HasField("input_json")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/checkpoint_id"),
        ({"checkpoint_id": 5}, "/checkpoint_id"),
        ({"checkpoint_id": APPROVAL, "edit_calls": []}, "/edit_calls"),
        ({"checkpoint_id": APPROVAL, "edit_calls": {"c1": {}}}, "/edit_calls/c1/args"),
        ({"checkpoint_id": APPROVAL, "edit_calls": {"c1": {"args": 1}}}, "/edit_calls/c1/args"),
    ],
)
async def test_fork_with_a_bad_body(edge: Edge, body: Any, pointer: str) -> None:
    problem = await ask(edge, "POST", FORK, status=400, json=body)
    assert [e["pointer"] for e in problem["errors"]] == [pointer]


async def test_diff(edge: Edge) -> None:
    found = await ask(edge, "GET", "/v1/runs/{run_id}/diff/{other_run_id}")
    assert (found["origin_run_id"], found["shared_messages"]) == (RUN, 3)
    (pair,) = found["items"]
    assert (pair["call_index"], pair["same"], pair["b"]) == (1, False, None)
    assert (pair["a"]["decision"], pair["a"]["result"]) == ("approve", "paid")
    assert pair["a"]["arguments_raw"] == EXACT.decode()
    assert edge.owners.last(pb.DiffRunsRequest).other_run_id == UNKNOWN
