"""Threads, checkpoints, forks and differences as they are sent: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.runs.v1 import history_pb2 as pb
from hango.runs.v1 import runs_pb2
from hango_policy import strict_json

from hango_runner.mapping import run_message, transcript_message

if TYPE_CHECKING:
    from hango_platform.postgres.transaction import Row

    from hango_runner.agent.state import Call
    from hango_runner.domain.fork import Checkpoint, Compared, Executed, Forked, Pair
    from hango_runner.domain.thread import Thread


def thread_message(thread: Thread) -> pb.Thread:
    """A thread."""
    message = pb.Thread(
        id=thread.id,
        agent=thread.agent,
        created_by=thread.created_by,
        runs=thread.runs,
        live_run_id=thread.live_run_id,
    )
    message.created_at.FromDatetime(thread.created_at)
    return message


def said_message(row: Row) -> pb.ThreadMessage:
    """A message of a thread."""
    return pb.ThreadMessage(run_id=str(row["run_id"]), message=transcript_message(row))


def checkpoint_message(checkpoint: Checkpoint) -> pb.Checkpoint:
    """A checkpoint."""
    message = pb.Checkpoint(
        checkpoint_id=checkpoint.id,
        turn=checkpoint.turn,
        next=checkpoint.next,
        message_count=checkpoint.message_count,
    )
    message.created_at.FromDatetime(checkpoint.created_at)
    return message


def judged_message(call: Call) -> pb.JudgedCall:
    """An open call."""
    return pb.JudgedCall(
        call=runs_pb2.ToolCall(
            id=call.tool_call_id, name=call.tool_name, arguments_raw=call.arguments
        ),
        ruling=call.ruling,
        allowed_decisions=call.allowed,
    )


def todos_json(arguments: bytes) -> bytes:
    """The list in the arguments of a `write_todos` that ran; nothing where they were erased."""
    return strict_json.raw_members(arguments).get("todos", b"")


def forked_message(forked: Forked) -> pb.ForkRunResponse:
    """A fork, and what has been done already."""
    return pb.ForkRunResponse(
        run=run_message(forked.run),
        effects_before=map(_executed, forked.before),
        effects_after=map(_executed, forked.after),
    )


def pair_message(pair: Pair) -> pb.CallPair:
    """Two calls side by side."""
    return pb.CallPair(
        step=pair.step,
        call_index=pair.call_index,
        same=pair.same,
        call=None if pair.call is None else _compared(pair.call),
        other_call=None if pair.other is None else _compared(pair.other),
    )


def _executed(call: Executed) -> pb.ExecutedCall:
    return pb.ExecutedCall(
        run_id=call.run_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        state=call.state,
    )


def _compared(call: Compared) -> pb.ComparedCall:
    return pb.ComparedCall(
        call=runs_pb2.ToolCall(
            id=call.tool_call_id, name=call.tool_name, arguments_raw=call.arguments
        ),
        decision=call.decision,
        state=call.state,
        result_json=b"" if call.result is None else call.result.encode(),
        is_error=call.is_error,
    )
