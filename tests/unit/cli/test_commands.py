"""What the commands ask of the API, what they print, and how they end."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hango_approvals.domain.signing import Kind, Place, Signer
from hango_platform.ids import new_id

from tests.unit.cli.conftest import Api, Hango, Say

RUN = {
    "id": "r1",
    "agent": "clerk",
    "agent_version": 1,
    "state": "awaiting_approval",
    "pending_approvals": 2,
    "failure": None,
}


def page(*items: Any, token: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "next_page_token": token}


def events(*found: tuple[str, dict[str, Any]]) -> Say:
    text = "".join(
        f"id: {n}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
        for n, (name, data) in enumerate(found, 1)
    )
    return Say(text.encode(), type="text/event-stream")


def test_every_command_has_help(hango: Hango) -> None:
    for command in ("up", "demo", "serve", "migrate", "check-config", "agents", "runs"):
        assert hango(command, "--help").code == 0
    for command in ("approvals", "audit", "users", "keys", "tenants", "tools", "threads"):
        assert hango(command, "--help").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["runs", "show"],
        ["up", "--http", "8080"],
        ["up", "--http", "here:99999"],
        ["migrate", "gateway"],
        ["users", "update", "u1"],
        ["tenants", "set", "demo", "colour=red"],
        ["runs", "fork", "r1"],
        ["runs", "fork", "r1", "p1", "--edit", "c1={broken"],
        ["approvals", "decide", "r1"],
        ["approvals", "decide", "r1", "--approve", "c1", "--reject", "c1"],
    ],
)
def test_a_wrong_call_ends_with_2_and_asks_nothing(
    hango: Hango, api: Api, arguments: list[str]
) -> None:
    result = hango(*arguments)
    assert result.code == 2
    assert result.err
    assert api.asked == []


def test_nobody_there_ends_with_3(hango: Hango) -> None:
    result = hango("runs", "list", "--url", "http://127.0.0.1:1")
    assert result.code == 3
    assert "http://127.0.0.1:1" in result.err


def test_a_refusal_ends_with_1_and_says_what_is_at_fault(hango: Hango, api: Api) -> None:
    problem = {
        "title": "The request is not valid",
        "detail": "look below",
        "reason": "INVALID_REQUEST",
        "errors": [{"pointer": "/input", "message": "must not be empty"}],
    }
    api.on("POST /v1/runs", Say(json.dumps(problem).encode(), 400))
    result = hango("runs", "start", "clerk", "")
    assert result.code == 1
    assert "look below" in result.err
    assert "/input: must not be empty" in result.err


def test_options_win_over_variables(hango: Hango, api: Api) -> None:
    api.on("GET /v1/runs", page())
    assert hango("runs", "list", "--api-key", "hk_other").code == 0
    assert hango("runs", "list").code == 0
    seen = [asked.headers["authorization"] for asked in api.asked]
    assert seen == ["Bearer hk_other", "Bearer hk_me"]


def test_a_list_is_a_table_or_the_servers_own_json(hango: Hango, api: Api) -> None:
    api.on("GET /v1/runs", page(RUN, token="t2"))
    table = hango("runs", "list", "--state", "awaiting_approval", "--page-size", "1")
    assert api.asked[0].query == {"state": "awaiting_approval", "page_size": "1"}
    assert table.out.split()[:5] == ["id", "agent", "state", "pending", "approvals"]
    assert "r1" in table.out
    assert "--page-token t2" in table.out
    exact = b'{"items": [{"n": 1.00, "m": 12345678901234567890123}], "next_page_token": null}'
    api.on("GET /v1/runs", Say(exact))
    assert hango("runs", "list", "--json").out.encode().strip() == exact


def test_what_a_model_wrote_cannot_command_the_terminal(hango: Hango, api: Api) -> None:
    api.on("GET /v1/runs/r1", RUN | {"output": "[red]\x1b[2J\u202egnp.exe"})
    out = hango("runs", "show", "r1").out
    assert "[red]\\u001b[2J\\u202egnp.exe" in out
    assert "\x1b" not in out


def test_starting_a_run(hango: Hango, api: Api) -> None:
    api.on("POST /v1/runs", Say(json.dumps(RUN).encode(), 202))
    result = hango("runs", "start", "clerk", "pay 🙂", "--thread", "t", "--wait", "30s")
    assert result.code == 0
    assert json.loads(api.asked[0].body) == {"agent": "clerk", "input": "pay 🙂", "thread_id": "t"}
    assert api.asked[0].query == {"wait": "30s"}
    assert "hango approvals decide r1" in result.out


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_a_run_ends_as_the_run_does(hango: Hango, api: Api, state: str, code: int) -> None:
    api.on(
        "GET /v1/runs/r1/events",
        events(
            ("run.queued", {"run_id": "r1", "at": "2031-01-02T03:04:05Z"}),
            ("model.delta", {"text": "Do"}),
            ("run.finished", {"state": state, "failure": {"reason": "x", "message": "why"}}),
        ),
    )
    result = hango("runs", "watch", "r1")
    assert result.code == code
    lines = result.out.splitlines()
    assert lines[0].split() == ["03:04:05", "run.queued"]
    assert lines[1].split() == ["run.finished", state, "why"]


def test_watching_as_json_keeps_every_digit(hango: Hango, api: Api) -> None:
    text = 'id: 1\nevent: run.finished\ndata: {"state":"succeeded","n":1.00}\n\n'
    api.on("GET /v1/runs/r1/events", Say(text.encode(), type="text/event-stream"))
    result = hango("runs", "watch", "r1", "--json")
    line = '{"id":"1","event":"run.finished","data":{"state":"succeeded","n":1.00}}\n'
    assert (result.code, result.out) == (0, line)


def test_a_run_that_was_over_and_told_is_looked_up(hango: Hango, api: Api) -> None:
    api.on("GET /v1/runs/r1/events", Say(b"", 204))
    api.on("GET /v1/runs/r1", RUN | {"state": "failed"})
    assert hango("runs", "watch", "r1").code == 1


def test_the_transcript(hango: Hango, api: Api) -> None:
    call = {"id": "c1", "name": "pay", "arguments": {"n": 1}, "arguments_raw": '{"n": 1.00}'}
    api.on(
        "GET /v1/runs/r1/messages",
        page(
            {"role": "user", "content": [{"type": "text", "text": "pay"}]},
            {"role": "assistant", "content": "I pay", "tool_calls": [call]},
            {"role": "tool", "tool_name": "pay", "content": "refused", "is_error": True},
        ),
    )
    out = hango("runs", "messages", "r1").out
    assert "user\n  pay\nassistant\n  I pay\n" in out
    assert 'pay {"n": 1.00}  [c1]' in out
    assert "tool pay error\n  refused" in out


def test_forking_a_run(hango: Hango, api: Api) -> None:
    point = {"checkpoint_id": "p1", "turn": 1, "next": "tools", "message_count": 2}
    api.on("GET /v1/runs/r1/checkpoints", page(point))
    assert "p1" in hango("runs", "checkpoints", "r1").out
    done = {"run_id": "r1", "tool_call_id": "c0", "tool_name": "pay", "state": "unknown"}
    forked = RUN | {"id": "r2", "forked_from": "r1", "effects_before": [done], "effects_after": []}
    api.on("POST /v1/runs/r1/fork", Say(json.dumps(forked).encode(), 202))
    result = hango("runs", "fork", "r1", "p1", "--edit", 'c1={"n": 1.10}')
    assert "done before: pay unknown  [c0]" in result.out
    body = api.asked[-1].body
    assert b'"c1":{"args":{"n": 1.10}}' in body
    assert json.loads(body).keys() == {"checkpoint_id", "edit_calls"}
    hango("runs", "fork", "r1", "p1", "--input", "instead")
    assert json.loads(api.asked[-1].body) == {"checkpoint_id": "p1", "input": "instead"}


def test_where_two_runs_part(hango: Hango, api: Api) -> None:
    def compared(raw: str, decision: str | None, told: str) -> dict[str, Any]:
        call = {"id": "c1", "name": "pay", "arguments": None, "arguments_raw": raw}
        return call | {"decision": decision, "state": "succeeded", "result": told}

    mine, other = compared('{"n": 1.0}', "approve", "paid"), compared('{"n": 2.0}', None, "free")
    found = page(
        {"step": 0, "call_index": 0, "same": True, "a": mine, "b": mine},
        {"step": 1, "call_index": 0, "same": False, "a": mine, "b": other},
        {"step": 1, "call_index": 1, "same": False, "a": None, "b": other},
    )
    api.on("GET /v1/runs/r1/diff/r2", found | {"origin_run_id": "r1", "shared_messages": 3})
    lines = hango("runs", "diff", "r1", "r2").out.splitlines()
    assert [line for line in lines if "pay" in line] == [
        '  pay {"n": 1.0}  [c1] approve succeeded',
        '- pay {"n": 1.0}  [c1] approve succeeded',
        '+ pay {"n": 2.0}  [c1] succeeded',
        '+ pay {"n": 2.0}  [c1] succeeded',
    ]
    assert "3 messages in common with r1" in lines[0]


def test_threads(hango: Hango, api: Api) -> None:
    thread = {"id": "a b", "agent": "clerk", "runs": 2, "live_run_id": None}
    api.on("GET /v1/threads", page(thread))
    api.on("GET /v1/threads/a%20b", thread)
    said = {"run_id": "r1", "seq": 1, "role": "user", "content": "hi"}
    api.on("GET /v1/threads/a%20b/messages", page(said, token="t2"))
    assert "clerk" in hango("threads", "list").out
    out = hango("threads", "show", "a b").out
    assert "user\n  hi\nmore: --page-token t2" in out


def test_an_agent_is_saved_from_yaml(hango: Hango, api: Api, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("name: clerk\ninterrupt_on: {pay: {when: {arg: n, gt: 1.10}}}\n")
    api.on("PUT /v1/agents/clerk", {"name": "clerk", "version": 3, "warnings": ["mind the gap"]})
    result = hango("agents", "apply", str(file))
    assert api.asked[0].body == (
        b'{"name":"clerk","interrupt_on":{"pay":{"when":{"arg":"n","gt":1.10}}}}'
    )
    assert "version 3" in result.out
    assert "mind the gap" in result.out


def test_a_broken_agent_file_ends_with_1(hango: Hango, api: Api, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("name: [")
    result = hango("agents", "apply", str(file))
    assert result.code == 1
    assert str(file) in result.err
    assert api.asked == []


def test_the_directory(hango: Hango, api: Api) -> None:
    api.on("POST /v1/users", {"id": "u1", "name": "Ann", "role": "admin", "disabled": False})
    api.on("PATCH /v1/users/u1", {"id": "u1", "name": "Ann", "role": "admin", "disabled": True})
    api.on("POST /v1/api-keys", {"id": "k1", "secret": "hk_new"})
    api.on("DELETE /v1/api-keys/k1", Say(b"", 204))
    assert hango("users", "create", "Ann", "--role", "admin").code == 0
    assert hango("users", "update", "u1", "--disable").code == 0
    assert "hk_new" in hango("keys", "create", "u1", "laptop").out
    assert hango("keys", "revoke", "k1").code == 0
    bodies = [json.loads(asked.body) for asked in api.asked if asked.body]
    assert bodies == [
        {"name": "Ann", "role": "admin"},
        {"disabled": True},
        {"user_id": "u1", "name": "laptop"},
    ]


def test_a_tenant_is_set_only_by_its_own_name(hango: Hango, api: Api) -> None:
    tenant = {"id": "t", "name": "demo", "require_second_party": True}
    api.on("GET /v1/tenant", tenant)
    api.on("PATCH /v1/tenant", tenant)
    assert hango("tenants", "set", "other", "require_second_party=true").code == 1
    assert hango("tenants", "set", "demo", "require_second_party=true").code == 0
    assert [a.body for a in api.asked if a.method == "PATCH"] == [b'{"require_second_party": true}']


def row(seq: int, digest: str) -> dict[str, Any]:
    return {"seq": seq, "hash": digest}


def test_verifying_the_audit(hango: Hango, api: Api) -> None:
    api.on("GET /v1/audit/verify", {"ok": True, "checked": 7, "problems": []})
    assert hango("audit", "verify").code == 0
    broken = {"ok": False, "checked": 7, "problems": [{"seq": 3, "problem": "hash"}]}
    api.on("GET /v1/audit/verify", broken)
    result = hango("audit", "verify")
    assert result.code == 1
    assert "row 3: hash" in result.out


def test_an_anchor_finds_a_chain_that_was_forged_whole(
    hango: Hango, api: Api, tmp_path: Path
) -> None:
    anchor = tmp_path / "anchor.json"
    arguments = ("audit", "verify", "--anchor", str(anchor))
    api.on("GET /v1/audit/verify", {"ok": True, "checked": 2, "problems": []})
    api.on("GET /v1/audit", page(row(2, "b")))
    assert hango(*arguments).code == 0
    assert json.loads(anchor.read_text()) == row(2, "b")
    api.on("GET /v1/audit/export", row(2, "b"))
    api.on("GET /v1/audit", page(row(3, "c")))
    assert hango(*arguments).code == 0
    assert next(a.query for a in api.asked if a.path == "/v1/audit/export") == {
        "after": "1",
        "limit": "1",
    }
    assert json.loads(anchor.read_text()) == row(3, "c")
    for forged in (Say(json.dumps(row(3, "x")).encode()), Say(b"")):
        api.on("GET /v1/audit/export", forged)
        result = hango(*arguments)
        assert result.code == 1
        assert "row 3" in result.err
        assert json.loads(anchor.read_text()) == row(3, "c")


def test_the_services_own_file_of_signed_heads_is_an_anchor_too(
    hango: Hango, api: Api, tmp_path: Path
) -> None:
    tenant, signer = new_id(), Signer(bytes(32))
    now = datetime(2026, 1, 2, tzinfo=UTC)
    file = tmp_path / "heads.jsonl"
    heads = [
        signer.sign(Kind.HEAD, Place(tenant, 2, "b" * 64, now)),
        signer.sign(Kind.HEAD, Place(tenant, 3, "c" * 64, now)),
        signer.sign(Kind.HEAD, Place(new_id(), 9, "d" * 64, now)),
        signer.sign(Kind.CHECKPOINT, Place(tenant, 8, "d" * 64, now)),
        replace(signer.sign(Kind.HEAD, Place(tenant, 7, "d" * 64, now)), signature="00" * 64),
    ]
    file.write_bytes(b"".join(head.line() for head in heads))
    before = file.read_bytes()
    arguments = ("audit", "verify", "--anchor", str(file), "--public-key", signer.public_key)
    api.on("GET /v1/caller", {"tenant_id": tenant})
    api.on("GET /v1/audit/verify", {"ok": True, "checked": 2, "problems": []})
    api.on("GET /v1/audit", page(row(3, "c")))
    api.on("GET /v1/audit/export", row(3, "c" * 64))
    assert hango(*arguments).code == 0
    api.on("GET /v1/audit/export", row(3, "x" * 64))
    assert hango(*arguments).code == 1
    assert hango(*arguments[:-1], Signer(bytes([1] * 32)).public_key).code == 1
    assert file.read_bytes() == before


def test_exporting_the_audit(hango: Hango, api: Api) -> None:
    api.on("GET /v1/audit/export", Say(b'{"seq":1}\n{"seq":2}\n', type="application/x-ndjson"))
    assert hango("audit", "export").out == '{"seq":1}\n{"seq":2}\n'


def test_listing_tools_and_approvals(hango: Hango, api: Api) -> None:
    api.on("GET /v1/tools", page({"name": "pay", "effect": "once", "unavailable": "no server"}))
    api.on("GET /v1/approvals", page())
    assert "no server" in hango("tools", "list").out
    assert "nothing waits" in hango("approvals", "list").out
    assert api.asked[-1].query == {"state": "pending"}
