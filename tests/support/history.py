"""Threads, checkpoints, forks and differences, asked for over gRPC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hango.runs.v1 import history_pb2 as pb
from hango.runs.v1 import history_pb2_grpc as grpc
from hango.runs.v1 import runs_pb2, runs_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.stack import Client


def _checkpoints(client: Client) -> Any:
    return grpc.CheckpointsServiceStub(client.runner)


def _threads(client: Client) -> Any:
    return grpc.ThreadsServiceStub(client.runner)


async def checkpoints(client: Client, run_id: str) -> list[Any]:
    """All checkpoints of a run."""
    request = pb.ListCheckpointsRequest(run_id=run_id, page_size=200)
    return list((await client.call(_checkpoints(client).ListCheckpoints, request)).checkpoints)


async def checkpoint(client: Client, run_id: str, checkpoint_id: str, **more: Any) -> Any:
    """The state at a checkpoint."""
    request = pb.GetCheckpointRequest(run_id=run_id, checkpoint_id=checkpoint_id, **more)
    return await client.call(_checkpoints(client).GetCheckpoint, request)


async def fork(
    client: Client,
    run_id: str,
    checkpoint_id: str,
    text: Any = None,
    edits: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Fork a run; the answer."""
    request = pb.ForkRunRequest(
        run_id=run_id,
        checkpoint_id=checkpoint_id,
        input_json=None if text is None else json.dumps(text).encode(),
        edit_calls={
            call_id: args if isinstance(args, bytes) else json.dumps(args).encode()
            for call_id, args in (edits or {}).items()
        },
        **more,
    )
    return await client.call(_checkpoints(client).ForkRun, request)


async def diff(client: Client, run_id: str, other_run_id: str, **more: Any) -> Any:
    """Where two runs part."""
    request = pb.DiffRunsRequest(run_id=run_id, other_run_id=other_run_id, **more)
    return await client.call(_checkpoints(client).DiffRuns, request)


async def messages_until(client: Client, run_id: str, checkpoint_id: str) -> list[Any]:
    """The transcript up to a checkpoint."""
    stub = runs_pb2_grpc.RunsServiceStub(client.runner)
    request = runs_pb2.ListMessagesRequest(
        run_id=run_id, checkpoint_id=checkpoint_id, page_size=200
    )
    return list((await client.call(stub.ListMessages, request)).messages)


async def threads(client: Client, **more: Any) -> Any:
    """A page of threads."""
    return await client.call(_threads(client).ListThreads, pb.ListThreadsRequest(**more))


async def thread(client: Client, thread_id: str) -> Any:
    """A thread."""
    request = pb.GetThreadRequest(thread_id=thread_id)
    return (await client.call(_threads(client).GetThread, request)).thread


async def thread_messages(client: Client, thread_id: str, **more: Any) -> Any:
    """A page of a thread's conversation."""
    request = pb.ListThreadMessagesRequest(thread_id=thread_id, **more)
    return await client.call(_threads(client).ListThreadMessages, request)


async def point(client: Client, run_id: str, turn_: int, next_: str) -> Any:
    """The checkpoint of this turn before which this comes."""
    found = await checkpoints(client, run_id)
    return next(c.checkpoint_id for c in found if (c.turn, c.next) == (turn_, next_))


async def settled(client: Client, forked: Any) -> Any:
    """The fork once it is paused or over."""
    return await client.run(forked.run.id, wait=20)
