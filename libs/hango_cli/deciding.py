"""Deciding on a terminal: which decision for which call, edited arguments, answers."""

import difflib
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from hango_cli import output, story
from hango_cli.errors import Failed
from hango_cli.json_text import check
from hango_cli.settings import editor

if TYPE_CHECKING:
    from hango_cli.client import Answer, Client

_ALL = "*"
Decision = dict[str, Any]


def pending(client: "Client", run_id: str) -> list[Any]:
    """The run's pending approvals."""
    found: list[Any] = []
    token = None
    while True:
        path = f"/v1/runs/{run_id}/approvals"
        page = client.get(path, state="pending", page_size=200, page_token=token).data
        found += page["items"]
        token = page.get("next_page_token")
        if token is None:
            return found


def send(client: "Client", run_id: str, decisions: Sequence[Decision]) -> "Answer":
    """Give these decisions. Raises Problem or Unreachable."""
    body = orjson.dumps({"decisions": list(decisions)})
    return client.call("POST", f"/v1/runs/{run_id}/approvals", body)


def wanted(named: Mapping[str, Sequence[str] | None], every: str | None) -> dict[str, str]:
    """The decision for each named call; for `*`, that of all others."""
    found = {_ALL: every} if every else {}
    for decision, calls in named.items():
        for call in calls or ():
            if call in found:
                message = f"{call} is given two decisions"
                raise typer.BadParameter(message)
            found[call] = decision
    return found


def as_told(
    approvals: Sequence[Any], wanted: Mapping[str, str], *, message: str | None, value: str | None
) -> list[Decision]:
    """What the options say of these approvals. Calls that they leave out are left out: the server
    tells which. Raises BadParameter for a call that is not there.
    """
    left = {call for call in wanted if call != _ALL}
    decisions = []
    for approval in approvals:
        names = {approval["tool_call_id"], approval["id"]} & set(wanted)
        left -= names
        decision = wanted[names.pop()] if names else wanted.get(_ALL)
        if decision is None:
            continue
        given = ruling(approval, decision)
        if decision == "edit":
            given["args"] = edited(approval)
        elif decision == "respond" and value is not None:
            given["value"] = exact(value)
        elif decision in ("reject", "respond") and message is not None:
            given["message"] = message
        decisions.append(given)
    if left:
        text = f"no pending call of this run is called {', '.join(sorted(left))}"
        raise typer.BadParameter(text)
    return decisions


def ask(approval: Any) -> Decision:
    """Show one call and ask for a decision."""
    output.line("")
    story.approval(approval)
    allowed = approval["allowed_decisions"]
    while True:
        decision = typer.prompt(f"decide ({', '.join(allowed)})").strip().lower()
        matching = [name for name in allowed if decision and name.startswith(decision)]
        if len(matching) == 1 or decision in allowed:
            break
    given = ruling(approval, decision if decision in allowed else matching[0])
    match given["decision"]:
        case "edit":
            given["args"] = edited(approval)
        case "reject":
            if text := typer.prompt("message for the model", default="", show_default=False):
                given["message"] = text
        case "respond":
            given |= _answer(approval)
    return given


def edited(approval: Any) -> orjson.Fragment:
    """The arguments as they leave the editor, byte for byte, after the change was shown."""
    before = story.arguments(approval)
    after = in_editor(before + "\n").strip()
    try:
        value = exact(after)
    except ValueError as error:
        message = f"the edited arguments are not JSON ({error}); nothing was decided"
        raise Failed(message) from None
    for line in difflib.unified_diff(
        before.splitlines(), after.splitlines(), "asked", "edited", lineterm=""
    ):
        output.line(line, {"+": "green", "-": "red"}.get(line[0], "dim"))
    if before == after:
        output.line("the arguments are unchanged", "yellow")
    return value


def in_editor(text: str) -> str:
    """The text as it leaves the person's editor. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="hango-edit-") as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor()), str(file)], check=True)  # noqa: S603 - their own
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            message = f"the editor failed ({error}); nothing was decided"
            raise Failed(message) from None


def exact(text: str) -> orjson.Fragment:
    """This JSON text, to be sent as it is. Raises ValueError unless it is JSON."""
    check(text)
    return orjson.Fragment(text)


def _answer(approval: Any) -> Decision:
    if not (approval.get("input") or {}).get("schema"):
        return {"message": typer.prompt("answer")}
    while True:
        try:
            return {"value": exact(typer.prompt("answer, as JSON"))}
        except ValueError as error:
            output.failure(str(error))


def ruling(approval: Any, decision: str) -> Decision:
    return {
        "approval_id": approval["id"],
        "tool_call_id": approval["tool_call_id"],
        "decision": decision,
        # So that what is decided is what was shown.
        "arguments_sha256": approval["arguments_sha256"],
    }
