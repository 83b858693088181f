"""`hango tools`: what a spec may name."""

from typing import Any

import typer

from hango_cli import output
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="List the tools that an agent may use.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="tools")


@app.callback()
def _group() -> None:
    """List the tools that an agent may use."""


@app.command("list")
@acts
def list_(session: Session, page_size: PageSize = None, page_token: PageToken = None) -> None:
    """List built-in tools and those of the tool servers."""
    answer = session.client.get("/v1/tools", page_size=page_size, page_token=page_token)
    session.show(answer, _shown)


def _shown(page: Any) -> None:
    output.table(page["items"], ["name", "effect", "source", "description", "unavailable"])
    if page.get("next_page_token"):
        output.line(f"more: --page-token {page['next_page_token']}", "dim")
