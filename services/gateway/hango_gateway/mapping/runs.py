"""Runs and their transcripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.common.v1 import types_pb2

from hango_gateway.mapping import values

if TYPE_CHECKING:
    from hango.runs.v1 import runs_pb2

    from hango_gateway.mapping.values import Json


def run(found: runs_pb2.Run) -> Json:
    """A run."""
    return {
        "id": found.id,
        "agent": found.agent,
        "agent_version": found.agent_version,
        "thread_id": values.optional(found, "thread_id"),
        "state": values.word(types_pb2.RunState, found.state),
        "awaiting_since": values.time(found, "awaiting_since"),
        "suspension_id": values.optional(found, "suspension_id"),
        "created_by": found.created_by,
        "created_at": values.time(found, "created_at"),
        "started_at": values.time(found, "started_at"),
        "finished_at": values.time(found, "finished_at"),
        "output": values.raw(found.output_json),
        "failure": failure(found),
        "forked_from": values.optional(found, "forked_from"),
        "pending_approvals": found.pending_approvals,
        "usage": {
            "model_calls": found.usage.model_calls,
            "input_tokens": found.usage.input_tokens,
            "output_tokens": found.usage.output_tokens,
        },
        "metadata": values.raw(found.metadata_json or b"{}"),
        "lane": found.lane,
    }


def failure(found: runs_pb2.Run) -> Json | None:
    """Why a run failed; None where it did not."""
    if not found.HasField("failure"):
        return None
    return {"reason": found.failure.reason, "message": found.failure.message}


def message(found: runs_pb2.Message) -> Json:
    """One message of a transcript."""
    return {
        "seq": found.seq,
        "role": found.role,
        "content": values.raw(found.content_json),
        "tool_calls": [tool_call(c) for c in found.tool_calls],
        "tool_call_id": values.optional(found, "tool_call_id"),
        "tool_name": values.optional(found, "tool_name"),
        "is_error": found.is_error,
        "subagent_call_id": values.optional(found, "subagent_call_id"),
        "created_at": values.time(found, "created_at"),
    }


def tool_call(found: runs_pb2.ToolCall) -> Json:
    """A call as the model asked for it."""
    return {
        "id": found.id,
        "name": found.name,
        "arguments": values.raw_if_json(found.arguments_raw),
        "arguments_raw": values.text(found.arguments_raw),
    }
