"""What the commands that act for a person have in common: whom they ask, as whom, and how they
answer.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from hango_cli import output

if TYPE_CHECKING:
    from hango_cli.client import Answer, Client

P = ParamSpec("P")

_OPTIONS = {
    "url": (
        Annotated[
            str,
            typer.Option(envvar="HANGO_URL", help="Where hango is.", rich_help_panel="Connection"),
        ],
        "http://127.0.0.1:8080",
    ),
    "api_key": (
        Annotated[
            str,
            typer.Option(
                envvar="HANGO_API_KEY",
                help="An API key, or an OIDC token.",
                show_default=False,
                rich_help_panel="Connection",
            ),
        ],
        "",
    ),
    "as_json": (
        Annotated[
            bool, typer.Option("--json", help="Print what the server answered, to the digit.")
        ],
        False,
    ),
}


class Session:
    """One command's conversation with the server."""

    def __init__(self, client: "Client", *, as_json: bool) -> None:
        self.client = client
        self.as_json = as_json

    def show(self, answer: "Answer", people: Callable[[Any], None]) -> None:
        """Print the answer as it came, or as `people` shows it."""
        if self.as_json:
            print(answer.text)
        else:
            people(answer.data)

    def list(
        self,
        path: str,
        columns: list[str],
        query: Mapping[str, object],
        *,
        nothing: str = "nothing here",
    ) -> None:
        """Print a page of a list."""

        def people(page: Any) -> None:
            if page["items"]:
                output.table(page["items"], columns)
            else:
                output.line(nothing, "dim")
            if page.get("next_page_token"):
                output.line(f"more: --page-token {page['next_page_token']}", "dim")

        self.show(self.client.get(path, **query), people)


def acts(command: Callable[Concatenate[Session, P], None]) -> Callable[P, None]:
    """Make a command of a function that wants a Session first: it gets `--url`, `--api-key` and
    `--json` (its module must not import annotations from the future, for typer reads them).
    """
    signature = inspect.signature(command)
    _session, *own = signature.parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from hango_cli.client import Client

        url, api_key, as_json = (kwargs.pop(name) for name in _OPTIONS)
        with Client(str(url), str(api_key)) as client:
            command(Session(client, as_json=bool(as_json)), *args, **kwargs)

    parameters = [*own, *common]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's protocol
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


PageSize = Annotated[int | None, typer.Option(min=1, max=200, help="At most so many.")]
PageToken = Annotated[str | None, typer.Option(help="Go on where an earlier page ended.")]
