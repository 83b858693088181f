"""The client repeats what may be repeated, and follows a stream over its connections."""

import pytest
from hango_cli import client as client_module
from hango_cli.client import Client
from hango_cli.errors import Problem, Unreachable

from tests.unit.cli.conftest import Api, Say

BUSY = Say(b'{"title": "busy", "reason": "UNAVAILABLE"}', 503)
IN_FLIGHT = Say(b'{"reason": "IDEMPOTENCY_IN_FLIGHT"}', 409)
CUT = Say(status=0)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_PAUSES", (0.001,))


def stream(*events: tuple[int, str], status: int = 200) -> Say:
    text = "".join(f'id: {n}\nevent: {name}\ndata: {{"n": {n}}}\n\n' for n, name in events)
    return Say(f"retry: 2000\n\n: still here\n\n{text}".encode(), status, "text/event-stream")


def test_a_call_is_repeated_with_the_same_key_and_body(api: Api) -> None:
    api.on("POST /v1/runs", BUSY, CUT, IN_FLIGHT, {"id": "r"})
    with Client(api.url, "hk_me", patience=10) as client:
        assert client.call("POST", "/v1/runs", b'{"agent": "a"}').data == {"id": "r"}
    keys = {a.headers["idempotency-key"] for a in api.asked}
    assert len(api.asked) == 4
    assert len(keys) == 1
    assert {a.body for a in api.asked} == {b'{"agent": "a"}'}
    assert {a.headers["authorization"] for a in api.asked} == {"Bearer hk_me"}


def test_two_calls_have_two_keys(api: Api) -> None:
    api.on("POST /v1/runs", {})
    with Client(api.url, "hk_me") as client:
        for _ in range(2):
            client.call("POST", "/v1/runs", b"{}")
    assert len({a.headers["idempotency-key"] for a in api.asked}) == 2


def test_without_patience_nothing_is_repeated(api: Api) -> None:
    api.on("GET /v1/runs", BUSY, {})
    with Client(api.url, "hk_me") as client, pytest.raises(Problem) as refusal:
        client.get("/v1/runs")
    assert refusal.value.reason == "UNAVAILABLE"
    assert len(api.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
def test_a_refusal_is_final(api: Api, status: int) -> None:
    api.on("GET /v1/runs", Say(b'{"detail": "no", "reason": "WHY"}', status))
    with (
        Client(api.url, "hk_me", patience=10) as client,
        pytest.raises(Problem, match="no") as refusal,
    ):
        client.get("/v1/runs")
    assert (refusal.value.status, refusal.value.reason) == (status, "WHY")
    assert len(api.asked) == 1


def test_a_proxys_page_is_a_problem_too(api: Api) -> None:
    api.on("GET /v1/runs", Say(b"<html>", 500, "text/html"))
    with Client(api.url, "") as client, pytest.raises(Problem, match="HTTP 500"):
        client.get("/v1/runs")
    assert "authorization" not in api.asked[0].headers


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://127.0.0.1:99999"])
def test_nobody_there(url: str) -> None:
    with pytest.raises(Unreachable), Client(url, "hk_me") as client:
        client.get("/v1/runs")


def test_a_stream_goes_on_where_it_was_cut_off(api: Api) -> None:
    api.on(
        "GET /v1/runs/r/events",
        stream((1, "run.queued"), (2, "run.started")),
        BUSY,
        CUT,
        stream((3, "run.finished")),
        Say(status=204, body=b""),
    )
    with Client(api.url, "hk_me") as client:
        events = list(client.events("/v1/runs/r/events"))
    assert [(e.id, e.name) for e in events] == [
        ("1", "run.queued"),
        ("2", "run.started"),
        ("3", "run.finished"),
    ]
    assert events[2].data == {"n": 3}
    seen = [a.headers.get("last-event-id") for a in api.asked]
    assert seen == [None, "2", "2", "2", "3"]


def test_a_stream_that_is_refused_is_not_tried_again(api: Api) -> None:
    with Client(api.url, "hk_me") as client, pytest.raises(Problem):
        list(client.events("/v1/runs/r/events"))
    assert len(api.asked) == 1
