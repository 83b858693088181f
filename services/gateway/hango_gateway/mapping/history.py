"""Threads, checkpoints, forks and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_gateway.mapping import runs, values

if TYPE_CHECKING:
    from hango.runs.v1 import history_pb2

    from hango_gateway.mapping.values import Json


def thread(found: history_pb2.Thread) -> Json:
    """A thread."""
    return {
        "id": found.id,
        "agent": found.agent,
        "created_by": found.created_by,
        "created_at": values.time(found, "created_at"),
        "runs": found.runs,
        "live_run_id": values.optional(found, "live_run_id"),
    }


def thread_message(found: history_pb2.ThreadMessage) -> Json:
    """A message of a thread."""
    return {"run_id": found.run_id, **runs.message(found.message)}


def checkpoint(found: history_pb2.Checkpoint) -> Json:
    """A checkpoint."""
    return {
        "checkpoint_id": found.checkpoint_id,
        "turn": found.turn,
        "next": found.next,
        "message_count": found.message_count,
        "created_at": values.time(found, "created_at"),
    }


def state(found: history_pb2.GetCheckpointResponse) -> Json:
    """The state at a checkpoint."""
    return {
        **checkpoint(found.checkpoint),
        "messages": [runs.message(m) for m in found.messages],
        "next_page_token": found.next_page_token or None,
        "pending_calls": [_judged(c) for c in found.pending_calls],
        "todos": values.raw(found.todos_json or b"[]"),
    }


def forked(found: history_pb2.ForkRunResponse) -> Json:
    """A fork."""
    return {
        **runs.run(found.run),
        "effects_before": [_executed(c) for c in found.effects_before],
        "effects_after": [_executed(c) for c in found.effects_after],
    }


def difference(found: history_pb2.DiffRunsResponse) -> Json:
    """Where two runs part."""
    return {
        "origin_run_id": found.origin_run_id,
        "shared_messages": found.shared_messages,
        "items": [_pair(p) for p in found.calls],
        "next_page_token": found.next_page_token or None,
    }


def _judged(found: history_pb2.JudgedCall) -> Json:
    return {
        **runs.tool_call(found.call),
        "ruling": found.ruling,
        "allowed_decisions": list(found.allowed_decisions),
    }


def _executed(found: history_pb2.ExecutedCall) -> Json:
    return {
        "run_id": found.run_id,
        "tool_call_id": found.tool_call_id,
        "tool_name": found.tool_name,
        "state": found.state,
    }


def _pair(found: history_pb2.CallPair) -> Json:
    return {
        "step": found.step,
        "call_index": found.call_index,
        "same": found.same,
        "a": _compared(found.call) if found.HasField("call") else None,
        "b": _compared(found.other_call) if found.HasField("other_call") else None,
    }


def _compared(found: history_pb2.ComparedCall) -> Json:
    return {
        **runs.tool_call(found.call),
        "decision": values.optional(found, "decision"),
        "state": found.state,
        "result": values.raw(found.result_json),
        "is_error": found.is_error,
    }
