"""`hango agents`: what may run, and which of its calls wait for a person."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hango_cli import output
from hango_cli.errors import Failed
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="Save, show and delete agents.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The agent's name.", show_default=False)]
File = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, help="A YAML or JSON file.", show_default=False),
]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="agents")


@app.command()
@acts
def apply(session: Session, file: File) -> None:
    """Save an agent; a changed one becomes a new version."""
    from hango_cli.json_text import read_spec

    try:
        name, body = read_spec(file)
    except (OSError, ValueError) as error:
        message = f"{file}: {error}"
        raise Failed(message) from None
    session.show(session.client.call("PUT", f"/v1/agents/{_quoted(name)}", body), _saved)


@app.command("list")
@acts
def list_(session: Session, page_size: PageSize = None, page_token: PageToken = None) -> None:
    """List agents, newest first."""
    query = {"page_size": page_size, "page_token": page_token}
    session.list("/v1/agents", ["name", "version", "created_at"], query)


@app.command()
@acts
def show(
    session: Session,
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="Not the newest version.")] = None,
) -> None:
    """Show an agent, and the rules that hold for it."""
    session.show(session.client.get(f"/v1/agents/{_quoted(name)}", version=version), _shown)


@app.command()
@acts
def delete(session: Session, name: Name) -> None:
    """Delete an agent; runs of it that wait go on."""
    answer = session.client.call("DELETE", f"/v1/agents/{_quoted(name)}")
    session.show(answer, lambda _: output.line(f"deleted {name}"))


def _saved(agent: Any) -> None:
    output.line(f"saved {agent['name']}, version {agent['version']}", "green")
    for warning in agent.get("warnings") or ():
        output.line(f"warning: {warning}", "yellow")


def _shown(agent: Any) -> None:
    output.pairs(agent, ["name", "version", "created_at", "spec"])
    rules = [{"tool": tool, "rule": rule} for tool, rule in agent["interrupt_on"].items()]
    output.line("")
    output.table(rules, ["tool", "rule"])


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
