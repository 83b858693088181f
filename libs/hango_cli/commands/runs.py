"""`hango runs`: start, follow, cancel, fork."""

import sys
from typing import Annotated, Any

import typer

from hango_cli import output, story
from hango_cli.errors import Failed
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="Start runs, follow, cancel and fork them.", no_args_is_help=True)
RunId = Annotated[str, typer.Argument(help="The run's id.", show_default=False)]

_RUN = [
    "id",
    "agent",
    "agent_version",
    "thread_id",
    "state",
    "pending_approvals",
    "created_by",
    "created_at",
    "started_at",
    "awaiting_since",
    "finished_at",
    "forked_from",
    "output",
    "failure",
    "usage",
]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="runs")


@app.command()
@acts
def start(
    session: Session,
    agent: Annotated[str, typer.Argument(help="Which agent.")],
    text: Annotated[str, typer.Argument(metavar="INPUT", help="What to do; - reads stdin.")],
    thread: Annotated[str | None, typer.Option(help="Continue this conversation.")] = None,
    wait: Annotated[
        str | None, typer.Option(help="Answer when it pauses or ends, or after this long: 30s.")
    ] = None,
) -> None:
    """Start a run."""
    from hango_cli.client import to_json

    body: dict[str, object] = {"agent": agent, "input": sys.stdin.read() if text == "-" else text}
    if thread is not None:
        body["thread_id"] = thread
    answer = session.client.call("POST", "/v1/runs", to_json(body), query={"wait": wait})
    session.show(answer, _shown)


@app.command("list")
@acts
def list_(
    session: Session,
    state: Annotated[str | None, typer.Option(help="In this state.")] = None,
    agent: Annotated[str | None, typer.Option(help="Of this agent.")] = None,
    thread: Annotated[str | None, typer.Option(help="Of this conversation.")] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """List runs, newest first."""
    query = {
        "state": state,
        "agent": agent,
        "thread_id": thread,
        "page_size": page_size,
        "page_token": page_token,
    }
    session.list("/v1/runs", ["id", "agent", "state", "pending_approvals", "created_at"], query)


@app.command()
@acts
def show(session: Session, run_id: RunId) -> None:
    """Show a run."""
    session.show(session.client.get(f"/v1/runs/{run_id}"), _shown)


@app.command()
@acts
def cancel(session: Session, run_id: RunId) -> None:
    """Cancel a run; its approvals are withdrawn."""
    session.show(session.client.call("POST", f"/v1/runs/{run_id}/cancel"), _shown)


@app.command()
@acts
def messages(
    session: Session,
    run_id: RunId,
    checkpoint: Annotated[str | None, typer.Option(help="Up to this checkpoint.")] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """Show the transcript, oldest first."""
    query = {"checkpoint_id": checkpoint, "page_size": page_size, "page_token": page_token}
    session.show(session.client.get(f"/v1/runs/{run_id}/messages", **query), story.transcript)


@app.command()
@acts
def watch(session: Session, run_id: RunId) -> None:
    """Follow a run to its end, from its start; ends with 1 unless it succeeds."""
    state = None
    for event in session.client.events(f"/v1/runs/{run_id}/events"):
        if session.as_json:
            story.raw_event(event)
        else:
            story.event(event)
        if event.name == "run.finished":
            state = event.data["state"]
            break
    if state is None:  # it was over, and its story told, before we came back to it
        state = session.client.get(f"/v1/runs/{run_id}").data["state"]
    if state != "succeeded":
        message = f"the run {state}" if state != "cancelled" else "the run was cancelled"
        raise Failed(message)


@app.command()
@acts
def checkpoints(
    session: Session, run_id: RunId, page_size: PageSize = None, page_token: PageToken = None
) -> None:
    """List the points where the run could stop, oldest first."""
    query = {"page_size": page_size, "page_token": page_token}
    columns = ["checkpoint_id", "turn", "next", "message_count", "created_at"]
    session.list(f"/v1/runs/{run_id}/checkpoints", columns, query)


@app.command()
@acts
def fork(
    session: Session,
    run_id: RunId,
    checkpoint_id: Annotated[str, typer.Argument(help="From where.", show_default=False)],
    text: Annotated[
        str | None, typer.Option("--input", help="A new input; open calls are left. - reads stdin.")
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(help="Other arguments of an open call: CALL_ID=JSON.", metavar="CALL_ID=JSON"),
    ] = None,
) -> None:
    """Start a new run from a checkpoint; this one stays as it is."""
    import orjson

    body: dict[str, object] = {"checkpoint_id": checkpoint_id}
    if text is not None:
        body["input"] = sys.stdin.read() if text == "-" else text
    if edit:
        body["edit_calls"] = dict(map(_edit, edit))
    answer = session.client.call("POST", f"/v1/runs/{run_id}/fork", orjson.dumps(body))
    session.show(answer, _forked)


@app.command()
@acts
def diff(
    session: Session,
    run_id: RunId,
    other_run_id: Annotated[str, typer.Argument(help="The other run's id.", show_default=False)],
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """Show where two runs of one origin part, and their calls from there on."""
    query = {"page_size": page_size, "page_token": page_token}
    answer = session.client.get(f"/v1/runs/{run_id}/diff/{other_run_id}", **query)
    session.show(answer, story.difference)


def _edit(option: str) -> tuple[str, object]:
    from hango_cli.deciding import exact

    call_id, _, text = option.partition("=")
    try:
        return call_id, {"args": exact(text)}
    except ValueError as error:
        message = f"{call_id}: the arguments are not JSON ({error})"
        raise typer.BadParameter(message) from None


def _forked(run: Any) -> None:
    _shown(run)
    for name, when in (("effects_before", "before"), ("effects_after", "since, by the original")):
        for call in run[name]:
            output.line(
                f"done {when}: {call['tool_name']} {call['state']}  [{call['tool_call_id']}]"
            )


def _shown(run: Any) -> None:
    output.pairs(run, _RUN)
    if run.get("pending_approvals"):
        output.line(f"decide with: hango approvals decide {run['id']}", "dim")
