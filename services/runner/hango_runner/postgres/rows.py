"""Rows to domain objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hango_policy import strict_json

from hango_runner.agent.state import (
    Answer,
    AskedCall,
    Call,
    CallKey,
    Decision,
    ExecState,
    Kind,
    Message,
    Outcome,
    Progress,
    Ruling,
    Run,
)
from hango_runner.agent.tools import ToolResult
from hango_runner.domain.spec import AgentSpec, read_spec
from hango_runner.domain.story import json_object, json_text

if TYPE_CHECKING:
    from hango_platform.postgres.transaction import Row

MAX_SPEC_BYTES = 1024 * 1024


def spec_of(text: str) -> AgentSpec:
    """A stored spec. It was checked when it was saved."""
    return read_spec(strict_json.parse(text.encode(), max_bytes=MAX_SPEC_BYTES))


def run_of(row: Row) -> Run:
    """A claimed run."""
    return Run(
        id=str(row["id"]),
        tenant_id=str(row["tenant_id"]),
        tenant=row["tenant"],
        agent=row["agent"],
        agent_version=row["agent_version"],
        spec=spec_of(row["spec"]),
        thread_id=row["thread_id"],
        created_by=str(row["created_by"]),
        turn=row["turn"],
        next=row["next"],
        gen=row["gen"],
        suspension_id=text_or_none(row["suspension_id"]),
        epoch=row["lease_epoch"],
        progress=Progress(row["model_calls"]),
        traceparent=row["traceparent"],
        tokens=row["tokens"],
    )


def call_of(row: Row) -> Call:
    """A tool call with all that is known of it."""
    return Call(
        key=CallKey(row["subagent_path"], row["turn"], row["call_index"]),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        arguments=row["arguments_raw"],
        ruling=Ruling(row["ruling"]),
        kind=Kind(row["kind"]),
        rule=_parsed(row["rule"]),
        allowed=tuple(row["allowed_decisions"] or ()),
        parameters=_parsed(row["parameters"]),
        input=_parsed(row["input"]),
        approval_id=text_or_none(row["approval_id"]),
        decision=_decision(row),
        exec_state=ExecState(row["exec_state"]),
        exec_epoch=row["exec_epoch"] or 0,
        effect=row["effect"],
        result=result_of(row["result"]),
        entry=row["entry"],
        subagent_call_id=row["subagent_call_id"],
    )


def replay_of(row: Row) -> Answer:
    """An answer of another run, with the arguments that a person changed."""
    edits = json.loads(row["replay"])
    calls = tuple(
        AskedCall(c["id"], c["name"], edits.get(c["id"], c["arguments_raw"]))
        for c in json.loads(row["tool_calls"])
    )
    return Answer(json.loads(row["content"]), calls)


def message_of(row: Row) -> Message:
    """A message of a conversation."""
    calls = json.loads(row["tool_calls"]) if row["tool_calls"] else []
    return Message(
        role=row["role"],
        content=json.loads(row["content"]),
        tool_calls=tuple(AskedCall(c["id"], c["name"], c["arguments_raw"]) for c in calls),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        is_error=row["is_error"],
        ended=row["ended"],
        outcomes=_outcomes(row["outcomes"]),
    )


def _outcomes(text: str | None) -> dict[str, Outcome]:
    found = json.loads(text) if text else {}
    return {
        call_id: Outcome(ExecState(o["state"]), _result(o["result"]), o["edited"])
        for call_id, o in found.items()
    }


def result_of(text: str | None) -> ToolResult | None:
    """A stored result."""
    return None if text is None else _result(json.loads(text))


def _result(found: Any) -> ToolResult | None:
    if found is None:
        return None
    structured = found.get("structured")
    return ToolResult(
        found["text"],
        is_error=found["is_error"],
        structured=None if structured is None else structured.encode("utf-8", "surrogatepass"),
    )


def result_text(result: ToolResult) -> str:
    """A result as it is stored."""
    structured = result.structured
    return json_object(
        {
            "text": result.text,
            "is_error": result.is_error,
            "structured": None
            if structured is None
            else structured.decode("utf-8", "surrogatepass"),
        }
    )


def calls_text(calls: tuple[AskedCall, ...]) -> str | None:
    """The calls of an assistant message as they are stored."""
    if not calls:
        return None
    return json_text(
        [{"id": c.id, "name": c.name, "arguments_raw": c.arguments_raw} for c in calls]
    )


def text_or_none(value: object) -> str | None:
    """An id as text, or None."""
    return None if value is None else str(value)


def _decision(row: Row) -> Decision | None:
    if row["decision"] is None:
        return None
    return Decision(
        kind=row["decision"],
        raw=row["decided_raw"],
        message=row["decision_message"],
        value=row["decision_value"],
        decided_by=str(row["decided_by"]),
    )


def _parsed(text: str | None) -> Any:
    return None if text is None else strict_json.parse(text.encode(), max_bytes=MAX_SPEC_BYTES)
