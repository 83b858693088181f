"""`hango audit`: who did what, and whether anybody changed the record of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hango_cli import output
from hango_cli.errors import Failed
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="Read and verify the audit trail.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="audit")


@app.command("list")
@acts
def list_(
    session: Session,
    run: Annotated[str | None, typer.Option(help="Of this run and its approvals.")] = None,
    target: Annotated[str | None, typer.Option(help="Of this target.")] = None,
    action: Annotated[str | None, typer.Option(help="Of this action.")] = None,
    actor: Annotated[str | None, typer.Option(help="By this user.")] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """List audit rows, newest first."""
    query = {
        "run_id": run,
        "target_id": target,
        "action": action,
        "actor_id": actor,
        "page_size": page_size,
        "page_token": page_token,
    }
    columns = ["seq", "at", "action", "outcome", "actor_kind", "actor_id", "target_id", "detail"]
    session.list("/v1/audit", columns, query)


@app.command()
@acts
def verify(
    session: Session,
    anchor: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="A file that remembers the newest row, so that a chain rewritten since is found; "
            "or the service's file of signed heads.",
        ),
    ] = None,
    public_key: Annotated[
        str | None, typer.Option(help="The key (hex) that signed heads must be signed with.")
    ] = None,
) -> None:
    """Recompute the hash chain of the tenant; ends with 1 if anything is wrong with it."""
    from hango_cli.anchor import Anchor

    kept = Anchor(anchor, public_key) if anchor else None
    problems = kept.compare(session.client) if kept else []
    answer = session.client.get("/v1/audit/verify")
    session.show(answer, _shown)
    for problem in problems:
        output.failure(problem)
    if problems or not answer.data["ok"]:
        message = "the audit trail is not what it was"
        raise Failed(message)
    if kept:
        kept.move(session.client)


@app.command()
@acts
def export(
    session: Session,
    after: Annotated[int, typer.Option(min=0, help="Only rows behind this number.")] = 0,
) -> None:
    """Print the chain, oldest row first, one JSON object a line, with all that is hashed."""
    for line in session.client.lines("/v1/audit/export", after=after):
        print(line)


def _shown(result: Any) -> None:
    if result["ok"]:
        output.line(f"{result['checked']} rows, all as they were written", "green")
    for fault in result["problems"]:
        output.line(f"row {fault['seq']}: {fault['problem']}", "red")
