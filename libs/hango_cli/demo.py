"""`hango demo`: an agent's call stops, somebody decides, the run goes on; told as it happens.

Everything it does, it does over the REST API of a stack of its own. Each call is repeated until it
is answered, so that any service may be killed at any moment of it.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hango_cli import deciding, output, story
from hango_cli.client import Client, to_json
from hango_cli.embedded.spawn import Command, end, spawn
from hango_cli.errors import Failed, Problem
from hango_cli.json_text import read_spec
from hango_cli.settings import inherited

_START_TIMEOUT = 90.0
_STOP_TIMEOUT = 15.0
_PATIENCE = 60.0
_REPORTED = 10.0
_POLL = 0.05
_INPUT = "Pay the invoice of ACME Office Supplies."
_TITLE = "bold cyan"


def run(data: Path | None) -> None:
    """Run the demo, in this data folder if one is given. Raises Failed unless the run succeeds."""
    example = examples() / "bank"
    with contextlib.ExitStack() as stack:
        folder = data or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="hango-demo-"))
        )
        bank = _bank(example, folder)
        output.line("Starting PostgreSQL, NATS and the four services …", _TITLE)
        begun = time.monotonic()
        ready = stack.enter_context(_stack(folder, bank / "tools.toml"))
        output.line(f"  up after {time.monotonic() - begun:.1f} s at {ready['http']}")
        keys = ready["credentials"]
        member, admin = (
            stack.enter_context(Client(ready["http"], keys[name], patience=_PATIENCE))
            for name in ("member", "admin")
        )
        state = _story(member, admin, bank / "agent.yaml")
        output.line("\nStopping …", _TITLE)
    if state != "succeeded":
        message = f"the demo's run ended as {state}"
        raise Failed(message)
    output.line("The run succeeded.", "bold green")


def examples() -> Path:
    """The examples, in a checkout or where the wheel puts them. Raises Failed."""
    checkout = Path(__file__).parents[2]
    for folder in (checkout, Path(sysconfig.get_path("data")) / "share" / "hango"):
        if (folder / "examples" / "bank").is_dir():
            return folder / "examples"
    message = "the example agent is not installed with hango; run the demo from a checkout"
    raise Failed(message)


def _bank(example: Path, folder: Path) -> Path:
    """A copy of the example whose ledger is this folder's own."""
    bank = Path(shutil.copytree(example, folder.absolute() / "bank", dirs_exist_ok=True))
    with (bank / "tools.toml").open("a", encoding="utf-8") as tools:
        tools.write(f"\nenv = {{ BANK_LEDGER = {json.dumps(str(bank / 'ledger.jsonl'))} }}\n")
    return bank


def _story(member: Client, admin: Client, agent_file: Path) -> str:
    name, spec = read_spec(agent_file)
    agent = admin.call("PUT", f"/v1/agents/{name}", spec).data
    output.line(f"\nThe admin saved the agent {name}, version {agent['version']}.", _TITLE)
    created = member.call("POST", "/v1/runs", to_json({"agent": name, "input": _INPUT})).data
    run_id = created["id"]
    output.line(f"The member started the run {run_id}: {_INPUT}", _TITLE)
    state = ""
    for event in admin.events(f"/v1/runs/{run_id}/events"):
        story.event(event)
        if event.name == "run.suspended":
            _decide(admin, run_id)
        elif event.name == "run.finished":
            state = event.data["state"]
            break
    output.line("\nTranscript", _TITLE)
    story.transcript(admin.get(f"/v1/runs/{run_id}/messages", page_size=200).data)
    output.line("\nAudit", _TITLE)
    _await_executions(admin, run_id)
    rows = admin.get("/v1/audit", run_id=run_id).data["items"]
    columns = ["seq", "at", "action", "outcome", "actor_kind", "actor_id", "target_id"]
    output.table(reversed(rows), columns)
    return state


def _await_executions(admin: Client, run_id: str) -> None:
    """What became of each call is reported within a second of its end."""
    deadline = time.monotonic() + _REPORTED
    while time.monotonic() < deadline:
        found = admin.get(f"/v1/runs/{run_id}/approvals", page_size=200).data["items"]
        if all(a["execution"]["state"] not in ("none", "started") for a in found):
            return
        time.sleep(_POLL)


def _decide(admin: Client, run_id: str) -> None:
    pending = deciding.pending(admin, run_id)
    if not pending:  # it was decided, and the event is an old one
        return
    output.line(f"\nThe run waits for a person: {len(pending)} call(s) are stopped.", _TITLE)
    asking = sys.stdin.isatty()
    decisions = []
    for approval in pending:
        if asking:
            decisions.append(deciding.ask(approval))
        else:
            output.line("")
            story.approval(approval)
            decisions.append(deciding.ruling(approval, "approve"))
    if not asking:
        output.line("\nThis is no terminal to ask on: the admin approves.", _TITLE)
    try:
        deciding.send(admin, run_id, decisions)
    except Problem as error:
        if error.reason == "APPROVALS_CLOSED":  # somebody else was faster
            return
        if not asking:
            raise
        output.problem(error.document, str(error))
        _decide(admin, run_id)


@contextlib.contextmanager
def _stack(folder: Path, tool_servers: Path) -> Iterator[Any]:
    """A stack of our own; its ready document."""
    folder.mkdir(parents=True, exist_ok=True)
    ready, log = folder / "demo-ready.json", folder / "demo-up.log"
    argv: list[str | Path] = [sys.executable, "-m", "hango_cli", "up", "--data", folder.absolute()]
    argv += ["--http", "127.0.0.1:0", "--ready-file", ready.absolute()]
    argv += ["--tool-servers", tool_servers.absolute(), "--no-durable"]
    ready.unlink(missing_ok=True)
    process = spawn(
        Command(
            argv,
            cwd=Path.cwd(),
            log=log,
            on_parent_death=signal.SIGTERM,
            environment=inherited(),
        )
    )
    try:
        yield _await_ready(process, ready, log)
    finally:
        end(process, (signal.SIGTERM, _STOP_TIMEOUT))


def _await_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> Any:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if ready.exists():
            return json.loads(ready.read_text())
        time.sleep(_POLL)
    last = "\n".join(log.read_text(errors="replace").strip().splitlines()[-8:])
    message = f"the stack did not start:\n{last}"
    raise Failed(message)
