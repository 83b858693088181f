"""`hango threads`: conversations over several runs."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from hango_cli import output, story
from hango_cli.person import PageSize, PageToken, Session, acts

app = typer.Typer(help="Read conversations.", no_args_is_help=True)

_THREAD = ["id", "agent", "created_by", "created_at", "runs", "live_run_id"]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(app, name="threads")


@app.command("list")
@acts
def list_(session: Session, page_size: PageSize = None, page_token: PageToken = None) -> None:
    """List threads, newest first."""
    session.list("/v1/threads", _THREAD, {"page_size": page_size, "page_token": page_token})


@app.command()
@acts
def show(
    session: Session,
    thread_id: Annotated[str, typer.Argument(help="The thread's id.", show_default=False)],
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> None:
    """Show a thread and its conversation, oldest first; with --json the conversation alone."""
    path = f"/v1/threads/{quote(thread_id, safe='')}"
    query = {"page_size": page_size, "page_token": page_token}
    messages = session.client.get(f"{path}/messages", **query)

    def people(page: Any) -> None:
        output.pairs(session.client.get(path).data, _THREAD)
        story.transcript(page)
        if page.get("next_page_token"):
            output.line(f"more: --page-token {page['next_page_token']}", "dim")

    session.show(messages, people)
