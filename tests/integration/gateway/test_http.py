"""What holds for every request: who may ask, how refusals look, methods, headers, pages."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.identity.v1 import identity_pb2 as ipb
from hango_platform import errors
from hango_platform.errors import BY_REASON

from tests.support.fake_owners import RUN, UNKNOWN, Edge, gateway
from tests.support.openapi import check
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.backend import NatsServer

ADMINS_ONLY = [
    ("PUT", "/v1/agents/writer"),
    ("DELETE", "/v1/agents/writer"),
    ("PUT", "/v1/agents/NOT A NAME"),
    ("GET", "/v1/audit?page_size=0"),
    ("GET", "/v1/audit/verify"),
    ("GET", "/v1/users"),
    ("POST", "/v1/users"),
    ("PATCH", "/v1/users/nonsense"),
    ("GET", "/v1/api-keys"),
    ("POST", "/v1/api-keys"),
    ("DELETE", "/v1/api-keys/nonsense"),
    ("PATCH", "/v1/tenant"),
    ("GET", "/v1/events"),
]


async def routes(edge: Edge) -> list[tuple[str, str]]:
    """Every operation under /v1, its path filled in."""
    document = (await edge.http.get("/openapi.json")).json()
    return [
        (method.upper(), re.sub(r"\{\w+\}", UNKNOWN, path))
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1")
    ]


async def test_nothing_without_credentials(edge: Edge) -> None:
    found = await routes(edge)
    assert len(found) > 25
    for method, path in found:
        answer = await edge.http.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == 'Bearer realm="hango"'
        assert answer.json()["reason"] == "UNAUTHENTICATED"
    assert edge.owners.asked == []


@pytest.mark.parametrize("header", ["Bearer", "Basic aGs6", "hk_admin", "Bearer hk_x"])
async def test_bad_credentials(edge: Edge, header: str) -> None:
    answer = await edge.http.get("/v1/caller", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="hango", error="invalid_token"'
    assert "hk_" not in answer.text


@pytest.mark.parametrize(("method", "path"), ADMINS_ONLY)
async def test_members_are_refused_whatever_they_ask(edge: Edge, method: str, path: str) -> None:
    answer = await edge.ask(method, path, "member", content=b"{")
    assert answer.status_code == 403
    assert answer.json()["reason"] == "FORBIDDEN"


async def test_an_admin_may_not_change_the_tenant(edge: Edge) -> None:
    assert (await edge.ask("PATCH", "/v1/tenant", "admin", json={})).status_code == 403


async def test_the_principal_comes_from_the_credential(edge: Edge) -> None:
    await edge.ask("GET", "/v1/caller", "owner", headers={"hango-internal": "forged"})
    assert edge.owners.last(ipb.AuthenticateRequest).credential == "hk_owner"


async def test_credentials_are_remembered_for_a_second(edge: Edge) -> None:
    async with gateway("nats://127.0.0.1:1") as fresh:
        for _ in range(5):
            assert (await fresh.ask("GET", "/v1/caller")).status_code == 200
        assert fresh.owners.authenticated <= 2
        fresh.owners.revoked.add("admin")
        await eventually(lambda: _refused(fresh), timeout=2)


async def _refused(edge: Edge) -> bool:
    return (await edge.ask("GET", "/v1/caller")).status_code == 401


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/v1/runs?page_size=201", "/page_size"),
        ("/v1/runs?page_size=0", "/page_size"),
        ("/v1/runs?page_size=-1", "/page_size"),
        ("/v1/runs?page_size=", "/page_size"),
        ("/v1/runs?page_size=1e3", "/page_size"),
        ("/v1/runs?page_size=99999999999999999999999", "/page_size"),
        ("/v1/runs?state=paused", "/state"),
        ("/v1/runs?state=", "/state"),
        ("/v1/runs?state=Queued", "/state"),
        ("/v1/runs?agent=%00", "/agent"),
        ("/v1/runs?thread_id=" + "x" * 257, "/thread_id"),
        ("/v1/runs?page_token=" + "x" * 2000, "/page_token"),
        ("/v1/approvals?state=open", "/state"),
        ("/v1/approvals?run_id=x", "/run_id"),
        (f"/v1/approvals?run_id={RUN.upper()}", "/run_id"),
        ("/v1/approvals?tool=", "/tool"),
        ("/v1/approvals/nonsense", "/approval_id"),
        (f"/v1/runs/{RUN}%00", "/run_id"),
        (f"/v1/runs/{RUN}%0A", "/run_id"),
        (f"/v1/runs/{RUN}/approvals?state=x", "/state"),
        (f"/v1/runs/{RUN}/messages?page_size=x", "/page_size"),
        ("/v1/audit?actor_id=x", "/actor_id"),
        ("/v1/agents/Writer", "/name"),
        ("/v1/agents/writer?version=0", "/version"),
        ("/v1/agents/writer?version=2147483648", "/version"),
    ],
)
async def test_bad_parameters(edge: Edge, path: str, pointer: str) -> None:
    answer = await edge.ask("GET", path)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["reason"] == "INVALID_REQUEST"
    assert [e["pointer"] for e in problem["errors"]] == [pointer]
    assert "paused" not in answer.text
    assert "99999" not in answer.text


async def test_no_value_comes_back(edge: Edge) -> None:
    canary = "zanzibar"
    bodies: list[Any] = [canary, [canary], {canary: canary}, {"agent": 1, "input": {canary: 1}}]
    bodies.append({"decisions": [{"decision": canary, "args": [canary], "message": [canary]}]})
    bodies.append({"name": [canary], "role": canary, "user_id": canary, "expires_at": canary})
    paths = ("/v1/runs", f"/v1/runs/{RUN}/approvals", "/v1/users", "/v1/api-keys")
    for path in paths:
        for body in bodies:
            answer = await edge.ask("POST", path, json=body)
            assert answer.status_code == 400, (path, body)
            assert canary not in answer.text


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/runs/", "/inbox", "//v1/runs"])
async def test_what_there_is_not(edge: Edge, path: str) -> None:
    answer = await edge.http.get(edge.url + path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/problems/not-found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/runs", "GET, HEAD, OPTIONS, POST"),
        ("POST", f"/v1/runs/{RUN}", "GET, HEAD, OPTIONS"),
        ("PUT", f"/v1/runs/{RUN}/approvals", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/agents/writer", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("HEAD", f"/v1/runs/{RUN}/cancel", "OPTIONS, POST"),
        ("TRACE", "/v1/tenant", "GET, HEAD, OPTIONS, PATCH"),
    ],
)
async def test_other_methods(edge: Edge, method: str, path: str, allow: str) -> None:
    answer = await edge.ask(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allow
    if method != "HEAD":
        assert answer.json()["status"] == 405
    options = await edge.http.options(path)
    assert (options.status_code, options.content) == (204, b"")
    assert options.headers["allow"] == allow


async def test_head_is_get_without_a_body(edge: Edge) -> None:
    for path in (f"/v1/runs/{RUN}", "/v1/approvals", "/healthz", "/docs", "/metrics"):
        answer = await edge.ask("HEAD", path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await edge.http.head("/v1/runs")).status_code == 401


async def test_nobody_else_s_page_may_read_or_frame_this(edge: Edge) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for answer in (
        await edge.ask("GET", "/v1/caller", headers=origin),
        await edge.http.get("/v1/caller", headers=origin),
        await edge.http.get("/docs", headers=origin),
        await edge.http.get("/problems/not-found"),
        await edge.http.get("/nothing"),
        await edge.http.options("/v1/runs", headers=origin),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        assert not any(name.startswith("access-control") for name in answer.headers)


async def test_a_page_for_every_reason(edge: Edge) -> None:
    for cls in BY_REASON.values():
        page = await edge.http.get(f"/problems/{cls.slug()}")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert cls.reason in page.text
        assert cls.title in page.text
    assert (await edge.http.get("/problems/<script>")).status_code == 404


async def test_docs_need_nobody_else(edge: Edge) -> None:
    page = await edge.http.get("/docs")
    assert page.status_code == 200
    assert "/v1/runs/{run_id}/approvals" in page.text
    assert not re.search(r"(src|href)=.?(https?:)?//", page.text)
    assert "<script" not in page.text


async def test_health_and_metrics(edge: Edge) -> None:
    document = (await edge.http.get("/openapi.json")).json()
    for path in ("/healthz", "/readyz"):
        answer = await edge.http.get(path)
        assert check(document, "GET", path, answer) == {"status": "ok"}
    await edge.ask("GET", f"/v1/runs/{RUN}")
    series = 'hango_http_requests_total{method="GET",route="/v1/runs/{run_id}",status="200"}'
    here = (await edge.http.get("/metrics")).text
    assert series in here
    assert RUN not in here
    async with httpx.AsyncClient() as http:
        assert series in (await http.get(edge.addresses["metrics"])).text


async def test_owners_that_are_away(nats_server: NatsServer) -> None:
    async with gateway(nats_server.url) as edge:
        await edge.ask("GET", "/v1/caller")
        await edge.servers["runner"].stop(0)
        answer = await edge.ask("GET", f"/v1/runs/{RUN}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["reason"] == "UNAVAILABLE"
        assert (await edge.ask("GET", "/v1/approvals")).status_code == 200
        await edge.servers["approvals"].stop(0)
        answer = await edge.ask("GET", "/v1/caller", "owner")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        # It owns nothing: it is as ready as ever.
        assert (await edge.http.get("/readyz")).status_code == 200


async def test_a_deadline_is_told_apart_by_what_was_asked(edge: Edge) -> None:
    edge.owners.refuse["GetRun"] = errors.OutcomeUnknown()
    assert (await edge.ask("GET", f"/v1/runs/{RUN}")).status_code == 503
    edge.owners.refuse["CancelRun"] = errors.OutcomeUnknown()
    answer = await edge.ask("POST", f"/v1/runs/{RUN}/cancel")
    assert (answer.status_code, answer.json()["reason"]) == (504, "OUTCOME_UNKNOWN")


async def test_a_fault_of_the_gateway_itself(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_found: object) -> None:
        msg = "a secret"
        raise ValueError(msg)

    monkeypatch.setattr("hango_gateway.mapping.runs.run", fail)
    answer = await edge.ask("GET", f"/v1/runs/{RUN}")
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["reason"] == "INTERNAL"
    assert "secret" not in answer.text
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == ["a request failed"]


async def test_the_trace_goes_on(edge: Edge) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    await edge.ask("GET", f"/v1/runs/{RUN}", headers={"traceparent": parent})
    assert "a" * 32 in edge.owners.traces


async def test_headers_that_are_too_long(edge: Edge) -> None:
    url = urlsplit(edge.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(b"GET /v1/caller HTTP/1.1\r\nX: " + b"x" * 40_000)
    async with asyncio.timeout(5):
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()


async def test_a_forged_decision_of_the_edge_does_not_pass(edge: Edge) -> None:
    """Internal metadata is the gateway's to write, whatever a client sends."""
    headers = {"hango-internal": "x", "grpc-metadata-authorization": "Bearer hk_owner"}
    body = {"decisions": [{"tool_call_id": "c1", "decision": "approve"}]}
    path = f"/v1/runs/{RUN}/approvals"
    assert (await edge.ask("POST", path, "member", json=body, headers=headers)).status_code == 403
    assert edge.owners.last(apb.DecideApprovalsRequest).run_id == RUN
