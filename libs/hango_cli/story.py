"""A run's story for people: its events as they come, its approvals, its transcript."""

from typing import TYPE_CHECKING, Any

import orjson

from hango_cli import output
from hango_cli.json_text import reindent

if TYPE_CHECKING:
    from hango_cli.client import Event

_DETAILS = (
    "tool_name",
    "tool_call_id",
    "decision",
    "decided_by",
    "state",
    "outcome",
    "reason",
    "message",
)
_ROLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold magenta"}
APPROVAL = [
    "id",
    "run_id",
    "tool_call_id",
    "tool_name",
    "kind",
    "agent",
    "requested_by",
    "state",
    "created_at",
    "expires_at",
    "allowed_decisions",
    "rule",
    "decision",
    "decision_message",
    "decided_by",
    "decided_at",
    "execution.state",
]


def raw_event(event: "Event") -> None:
    """One event as a line of JSON."""
    head = {"id": event.id or None, "event": event.name, "data": orjson.Fragment(event.text)}
    print(orjson.dumps(head).decode(), flush=True)


def event(event: "Event") -> None:
    """One event as a line."""
    from rich.text import Text

    data = event.data
    if event.name == "model.delta":
        return
    line = Text(f"{str(data.get('at', ''))[11:19]:<10}", style="dim")
    line.append(f"{event.name:<20}", style="bold")
    for name in _DETAILS:
        if isinstance(data.get(name), str):
            line.append(" ").append_text(output.styled(data[name]))
    if data.get("failure"):
        line.append(" ").append_text(output.styled(data["failure"].get("message")))
    output.console().print(line)


def approval(found: Any) -> None:
    """An approval, with the exact arguments that wait."""
    output.pairs(found, APPROVAL)
    output.line("arguments", "dim")
    output.line(_indented(arguments(found)))
    if found.get("input"):
        output.line("question", "dim")
        output.pairs(found["input"], ["payload", "schema"])


def arguments(found: Any) -> str:
    """The exact text of an approval's arguments, over several lines."""
    return reindent(found["arguments_raw"])


def transcript(page: Any) -> None:
    """The messages of a run, in order."""
    from rich.text import Text

    for message in page["items"]:
        head = Text(message["role"], style=_ROLES.get(message["role"], "bold"))
        if message.get("tool_name"):
            head.append(f" {output.visible(message['tool_name'])}", style="magenta")
        if message.get("is_error"):
            head.append(" error", style="red")
        if message.get("subagent_call_id"):
            head.append(f" in {output.visible(message['subagent_call_id'])}", style="dim")
        output.console().print(head)
        if content := _text(message.get("content")):
            output.line(_indented(content))
        for call in message.get("tool_calls") or ():
            raw = call.get("arguments_raw") or ""
            output.line(f"  → {call['name']} {raw}  [{call['id']}]", "magenta")


def difference(found: Any) -> None:
    """Where two runs part: the calls of the one marked with -, those of the other with +."""
    output.line(
        f"{found['shared_messages']} messages in common with {found['origin_run_id']}", "dim"
    )
    for pair in found["items"]:
        if pair["same"]:
            output.line(f"  {_compared(pair['a'])}", "dim")
            continue
        for mark, call, style in (("-", pair["a"], "red"), ("+", pair["b"], "green")):
            if call is not None:
                output.line(f"{mark} {_compared(call)}", style)
    if found.get("next_page_token"):
        output.line(f"more: --page-token {found['next_page_token']}", "dim")


def _compared(call: Any) -> str:
    decided = f" {call['decision']}" if call["decision"] else ""
    head = f"{call['name']} {call['arguments_raw']}  [{call['id']}]{decided} {call['state']}"
    told = _text(call["result"])
    return f"{head}\n{_indented(_indented(told))}" if told else head


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(p.get("text") or f"({p.get('type')})" for p in content)
    return ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
