"""`hango approvals`: what waits for a person, and deciding it."""

import enum
import sys
from typing import Annotated, Any

import typer

from hango_cli import deciding, output, story
from hango_cli.errors import Failed
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="See what waits for a person, and decide it.", no_args_is_help=True)


class ForAll(enum.StrEnum):
    """A decision that can be given to every call alike."""

    APPROVE = "approve"
    REJECT = "reject"


Calls = Annotated[
    list[str] | None,
    typer.Option(metavar="CALL", help="This call (its tool call id, or approval id)."),
]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="approvals")


@app.command("list")
@acts
def list_(
    session: Session,
    state: Annotated[str, typer.Option(help="pending, decided, expired, withdrawn.")] = "pending",
    tool: Annotated[str | None, typer.Option(help="Of this tool.")] = None,
    agent: Annotated[str | None, typer.Option(help="Of this agent.")] = None,
    run: Annotated[str | None, typer.Option(help="Of this run.")] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """List approvals, oldest first."""
    query = {
        "state": state,
        "tool": tool,
        "agent": agent,
        "run_id": run,
        "page_size": page_size,
        "page_token": page_token,
    }
    columns = ["run_id", "tool_call_id", "tool_name", "agent", "state", "expires_at"]
    session.list("/v1/approvals", columns, query, nothing="nothing waits")


@app.command()
@acts
def show(
    session: Session,
    approval_id: Annotated[str, typer.Argument(help="The approval's id.", show_default=False)],
) -> None:
    """Show an approval, with its exact arguments."""
    session.show(session.client.get(f"/v1/approvals/{approval_id}"), story.approval)


@app.command()
@acts
def decide(
    session: Session,
    run_id: Annotated[str, typer.Argument(help="The run's id.", show_default=False)],
    approve: Calls = None,
    reject: Calls = None,
    respond: Calls = None,
    edit: Calls = None,
    every: Annotated[
        ForAll | None, typer.Option("--all", help="Every call not named otherwise.")
    ] = None,
    message: Annotated[
        str | None, typer.Option(help="What the model is told of a rejection, or as the answer.")
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="A question's answer as JSON, in place of a message.")
    ] = None,
) -> None:
    """Decide every pending call of a run: as the options say, or by asking on a terminal.

    An edit opens your editor on the exact arguments, and sends exactly what you leave there.
    """
    named = {"approve": approve, "reject": reject, "respond": respond, "edit": edit}
    wanted = deciding.wanted(named, every.value if every else None)
    if not wanted and not sys.stdin.isatty():
        text = "this is no terminal to ask on: say --all, --approve, --reject, --respond or --edit"
        raise typer.BadParameter(text)
    pending = deciding.pending(session.client, run_id)
    if not pending:
        text = "nothing of this run waits for a decision"
        raise Failed(text)
    if wanted:
        decisions = deciding.as_told(pending, wanted, message=message, value=value)
    else:
        decisions = [deciding.ask(approval) for approval in pending]
    session.show(deciding.send(session.client, run_id, decisions), _decided)


def _decided(result: Any) -> None:
    for approval in result["approvals"]:
        output.line(f"{approval['decision']}: {approval['tool_name']} {approval['tool_call_id']}")
