"""What people see: tables, pairs of name and value, and problems."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 10_000  # a program that reads a table wants whole cells
_STATES = {
    "succeeded": "green",
    "approve": "green",
    "ok": "green",
    "awaiting_approval": "yellow",
    "pending": "yellow",
    "failed": "red",
    "reject": "red",
    "denied": "red",
    "error": "red",
    "expired": "red",
}


@cache
def console() -> "Console":
    """Where results go."""
    from rich.console import Console

    out = Console(highlight=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = _PIPE_WIDTH
    return out


@cache
def errors() -> "Console":
    """Where problems go."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A table of these members of each row; dots lead into nested objects."""
    from rich.table import Table

    shown = Table(*(c.replace("_", " ") for c in columns), box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*(styled(_member(row, column)) for column in columns))
    console().print(shown, soft_wrap=False)


def pairs(row: Mapping[str, Any], names: Sequence[str]) -> None:
    """One line for each of these members that has a value."""
    from rich.text import Text

    width = max(len(name) for name in names) + 2
    for name in names:
        value = _member(row, name)
        if value is not None:
            line = Text(name.replace("_", " ").ljust(width), style="dim")
            console().print(line.append_text(styled(value)))


def line(text: str, style: str = "") -> None:
    """A line of text, taken literally."""
    from rich.text import Text

    console().print(Text(visible(text), style=style))


def styled(value: Any) -> Any:
    """A value as rich text: states have colours, and nothing in it can command the terminal."""
    from rich.text import Text

    if value is None:
        return Text("–", style="dim")  # noqa: RUF001 - a dash
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return Text(visible(", ".join(value)))
    if isinstance(value, dict | list):
        import json

        return Text(visible(json.dumps(value, ensure_ascii=False)))
    return Text(visible(str(value)), style=_STATES.get(str(value), ""))


def visible(text: str) -> str:
    """The text with control and format characters (bidi overrides too) spelled out, but for line
    ends and tabs: what a model wrote must look like what it is.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


def failure(text: str) -> None:
    """Why a command failed."""
    from rich.text import Text

    errors().print(Text(visible(text), style="red"))


def problem(document: Mapping[str, Any], summary: str) -> None:
    """A refusal: what it was, which fields are at fault, and what else there is to know."""
    from rich.text import Text

    out = errors()
    out.print(
        Text("refused: ", style="bold red").append(visible(summary), style="not bold default")
    )
    for fault in document.get("errors") or ():
        pointer, message = fault.get("pointer") or "/", fault.get("message", "")
        out.print(Text(f"  {visible(str(pointer))}: {visible(str(message))}"))
    for missing in document.get("remaining") or ():
        call, tool = missing.get("tool_call_id"), missing.get("tool_name")
        out.print(Text(f"  no decision for {visible(str(call))} ({visible(str(tool))})"))
    for name in ("allowed", "state"):
        if document.get(name):
            out.print(Text(f"  {name}: ").append_text(styled(document[name])))


def _member(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
