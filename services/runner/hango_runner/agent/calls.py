"""From what a model asked for to calls that can be judged."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hango_policy import strict_json
from hango_policy.errors import JsonRefused

from hango_runner.agent.state import Call, CallKey, ExecState, Ruling
from hango_runner.agent.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hango_runner.agent.ports import Catalog
    from hango_runner.agent.state import Answer, AskedCall, Message, Run
    from hango_runner.agent.tools import ToolSpec


def ids_in(messages: Iterable[Message]) -> set[str]:
    """Every call id of a conversation."""
    return {call.id for m in messages for call in m.tool_calls}


def read_calls(
    answer: Answer,
    run: Run,
    tools: Mapping[str, ToolSpec],
    catalog: Catalog,
    taken: Collection[str],
) -> list[Call]:
    """The calls of an answer: ids made unique, the ones that cannot be meant marked as bad.

    A bad call has its error result already; nobody is asked about it (protocol, section 3.1).
    """
    used = set(taken)
    calls = []
    total = 0
    for place, asked in enumerate(answer.tool_calls):
        key = CallKey(run.path, run.turn, place)
        # A subagent's ids are its model's own affair: outside they would not be unique.
        call_id = _unique_id("" if run.path else asked.id, key, used)
        used.add(call_id)
        raw = asked.arguments_raw.encode("utf-8", "surrogatepass")
        total += len(raw)
        fault = _fault(asked, raw, total, tools, catalog)
        calls.append(
            Call(
                key=key,
                tool_call_id=call_id,
                tool_name=asked.name,
                arguments=raw,
                ruling=Ruling.FREE if fault is None else Ruling.BAD,
                exec_state=ExecState.NONE if fault is None else ExecState.FAILED,
                result=None if fault is None else ToolResult(fault, is_error=True),
                subagent_call_id=run.subagent_call_id,
            )
        )
    return calls


def digest(raw: bytes) -> str:
    """SHA-256, hex."""
    return hashlib.sha256(raw).hexdigest()


def edited_note(ran: str) -> str:
    """What stands before the result of a call that was made with a person's arguments."""
    return (
        "A person changed the arguments of this call. It was made with these arguments in place "
        f"of yours, which must not be asked for again: {ran}\n"
        "What came of it:\n"
    )


def _unique_id(asked: str, key: CallKey, used: Collection[str]) -> str:
    """The model's id while it is new in the conversation, else a minted one (protocol, section
    4).
    """
    if asked and asked not in used and asked.isprintable() and len(asked) <= 256:
        return asked
    path = f"{key.subagent_path.replace('/', '_')}_" if key.subagent_path else ""
    minted = f"call_{path}{key.turn}_{key.call_index}"
    candidate, n = minted, 1
    while candidate in used:
        n += 1
        candidate = f"{minted}_{n}"
    return candidate


def _fault(
    asked: AskedCall,
    raw: bytes,
    total: int,
    tools: Mapping[str, ToolSpec],
    catalog: Catalog,
) -> str | None:
    """Why this call cannot be meant, as the model will read it."""
    spec = tools.get(asked.name)
    if spec is None:
        return "There is no tool of this name for you."
    if spec.unavailable:
        return f"This tool cannot be used now: {spec.unavailable}"
    if total > strict_json.MAX_BATCH_BYTES:
        return "The calls of this answer are too large together. Nothing was done."
    return arguments_fault(asked.name, raw, catalog)


def arguments_fault(name: str, raw: bytes, catalog: Catalog) -> str | None:
    """Why the tool as it is now cannot take these arguments; None where it can."""
    try:
        arguments = strict_json.parse(raw)
    except JsonRefused as error:
        return f"The arguments are not acceptable JSON: {error}. Nothing was done."
    if not isinstance(arguments, dict):
        return "The arguments must be a JSON object. Nothing was done."
    schema = catalog.schema(name)
    if schema is None:
        return "There is no tool of this name any more. Nothing was done."
    violations = schema.violations(arguments)
    if not violations:
        return None
    listed = "; ".join(f"{v.pointer or '/'} {v.message}" for v in violations[:10])
    return f"The arguments do not fit this tool: {listed}. Nothing was done."
