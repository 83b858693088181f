"""Deciding from the command line: the right decision for the right call, and exact bytes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Api, Hango, Say

RAW = '{"amount":250.10,"to":"\\u0041","id":12345678901234567890123}'


def approval(call: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"a-{call}",
        "run_id": "r1",
        "tool_call_id": call,
        "tool_name": "pay",
        "arguments_raw": RAW,
        "arguments_sha256": f"sha-{call}",
        "allowed_decisions": ["approve", "edit", "reject", "respond"],
        "state": "pending",
        **members,
    }


@pytest.fixture
def waiting(api: Api) -> Api:
    """A run with three pending calls."""
    items = [approval("c1"), approval("c2"), approval("c3", kind="input", input={"schema": {}})]
    api.on("GET /v1/runs/r1/approvals", {"items": items, "next_page_token": None})
    done = [{"decision": "approve", "tool_name": "pay", "tool_call_id": c} for c in ("c1", "c2")]
    api.on("POST /v1/runs/r1/approvals", {"approvals": done})
    return api


def named(call: str, decision: str, **members: Any) -> dict[str, Any]:
    return {
        "approval_id": f"a-{call}",
        "tool_call_id": call,
        "decision": decision,
        "arguments_sha256": f"sha-{call}",
        **members,
    }


def sent(api: Api) -> Any:
    return json.loads(api.asked[-1].body)["decisions"]


def test_all_alike(hango: Hango, waiting: Api) -> None:
    assert hango("approvals", "decide", "r1", "--all", "approve").code == 0
    assert waiting.asked[0].query["state"] == "pending"
    assert sent(waiting) == [named(c, "approve") for c in ("c1", "c2", "c3")]


def test_one_by_one_with_a_message(hango: Hango, waiting: Api) -> None:
    arguments = ["--reject", "c1", "--message", "no", "--approve", "a-c2"]
    assert hango("approvals", "decide", "r1", *arguments, "--respond", "c3").code == 0
    assert sent(waiting) == [
        named("c1", "reject", message="no"),
        named("c2", "approve"),
        named("c3", "respond", message="no"),
    ]


def test_an_answer_as_json_is_sent_as_it_is(hango: Hango, waiting: Api) -> None:
    arguments = ["--all", "approve", "--respond", "c3", "--value", '{"n": 1.00}']
    assert hango("approvals", "decide", "r1", *arguments).code == 0
    assert b'"value":{"n": 1.00}' in waiting.asked[-1].body


def test_an_unknown_call_decides_nothing(hango: Hango, waiting: Api) -> None:
    result = hango("approvals", "decide", "r1", "--all", "approve", "--reject", "c9")
    assert result.code == 2
    assert "c9" in result.err
    assert {asked.method for asked in waiting.asked} == {"GET"}


def test_calls_left_out_are_told(hango: Hango, waiting: Api) -> None:
    problem = {
        "detail": "Every pending call needs a decision",
        "reason": "APPROVALS_INCOMPLETE",
        "remaining": [{"approval_id": "a-c2", "tool_call_id": "c2", "tool_name": "pay"}],
    }
    waiting.on("POST /v1/runs/r1/approvals", Say(json.dumps(problem).encode(), 409))
    result = hango("approvals", "decide", "r1", "--approve", "c1")
    assert result.code == 1
    assert "no decision for c2 (pay)" in result.err
    assert sent(waiting) == [named("c1", "approve")]


def test_nothing_to_decide(hango: Hango, api: Api) -> None:
    api.on("GET /v1/runs/r1/approvals", {"items": [], "next_page_token": None})
    assert hango("approvals", "decide", "r1", "--all", "approve").code == 1


def an_editor(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    file = folder / "editor.py"
    file.write_text(f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{script}\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {file}")


def test_an_edit_is_sent_byte_for_byte(
    hango: Hango, waiting: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = 'file.write_text(file.read_text().replace("250.10", "99.00"))'
    an_editor(monkeypatch, tmp_path, script)
    arguments = ["--all", "approve", "--edit", "c1"]
    result = hango("approvals", "decide", "r1", *arguments)
    assert result.code == 0
    edited = b'{\n  "amount": 99.00,\n  "to": "\\u0041",\n  "id": 12345678901234567890123\n}'
    assert b'"args":' + edited in waiting.asked[-1].body
    assert '-  "amount": 250.10,' in result.out
    assert '+  "amount": 99.00,' in result.out


@pytest.mark.parametrize("script", ["file.write_text('{')", "sys.exit(1)", "file.unlink()"])
def test_an_edit_that_went_wrong_decides_nothing(
    hango: Hango, waiting: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    an_editor(monkeypatch, tmp_path, script)
    result = hango("approvals", "decide", "r1", "--all", "approve", "--edit", "c1")
    assert result.code == 1
    assert "nothing was decided" in result.err
    assert {asked.method for asked in waiting.asked} == {"GET"}


def test_asking_on_a_terminal(hango: Hango, waiting: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["what", "a", "rej", "wrong account", "respond", "[1, 2.0]"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    result = hango("approvals", "decide", "r1")
    assert result.code == 0
    assert '"amount": 250.10' in result.out
    assert b'"value":[1, 2.0]' not in waiting.asked[-1].body  # no schema: it is text
    assert sent(waiting) == [
        named("c1", "approve"),
        named("c2", "reject", message="wrong account"),
        named("c3", "respond", message="[1, 2.0]"),
    ]
