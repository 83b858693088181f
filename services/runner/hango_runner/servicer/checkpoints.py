"""`hango.runs.v1.CheckpointsService`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.runs.v1 import history_pb2 as pb
from hango.runs.v1 import history_pb2_grpc
from hango_platform.rpc import paging
from hango_platform.rpc.caller import principal

from hango_runner import mapping
from hango_runner.servicer import history
from hango_runner.servicer.requests import repeat_of

if TYPE_CHECKING:
    from hango_runner.domain.fork import Forked
    from hango_runner.postgres.forks import SqlForks
    from hango_runner.postgres.stories import SqlStories
    from hango_runner.use_cases.forks import Forks


class CheckpointsServicer(history_pb2_grpc.CheckpointsServiceServicer):
    """The points where a run could stop, and what can be done from there."""

    def __init__(self, forks: Forks, checkpoints: SqlForks, stories: SqlStories) -> None:
        self._forks = forks
        self._checkpoints = checkpoints
        self._stories = stories

    async def ListCheckpoints(
        self, request: pb.ListCheckpointsRequest, context: Any
    ) -> pb.ListCheckpointsResponse:
        """List them."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, int) or (0,)
        found = await self._checkpoints.list_page(request.run_id, after[0], size + 1, principal())
        page, more = found[:size], found[size:]
        token = paging.to_token(page[-1].message_count) if more else ""
        return pb.ListCheckpointsResponse(
            checkpoints=map(history.checkpoint_message, page), next_page_token=token
        )

    async def GetCheckpoint(
        self, request: pb.GetCheckpointRequest, context: Any
    ) -> pb.GetCheckpointResponse:
        """The state there."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, int) or (0,)
        by, run_id, checkpoint_id = principal(), request.run_id, request.checkpoint_id
        checkpoint, calls, todos = await self._checkpoints.get(run_id, checkpoint_id, by)
        found = await self._stories.messages(run_id, after[0], size + 1, by, checkpoint_id)
        rows, more = found[:size], found[size:]
        return pb.GetCheckpointResponse(
            checkpoint=history.checkpoint_message(checkpoint),
            messages=map(mapping.transcript_message, rows),
            next_page_token=paging.to_token(rows[-1]["seq"]) if more else "",
            pending_calls=map(history.judged_message, calls),
            todos_json=b"" if todos is None else history.todos_json(todos),
        )

    async def ForkRun(self, request: pb.ForkRunRequest, context: Any) -> pb.ForkRunResponse:
        """Queue a run that goes on from there."""
        forked = await self._forks.fork(
            request.run_id,
            request.checkpoint_id,
            request.input_json if request.HasField("input_json") else None,
            request.edit_calls,
            by=principal(),
            repeat=repeat_of(f"runs/{request.run_id}/fork", request),
            encode=_encode,
        )
        if isinstance(forked, bytes):
            return pb.ForkRunResponse.FromString(forked)
        return history.forked_message(forked)

    async def DiffRuns(self, request: pb.DiffRunsRequest, context: Any) -> pb.DiffRunsResponse:
        """Where two runs part."""
        size = paging.page_size(request.page_size)
        token: Any = paging.from_token(request.page_token, int, int) or (-1, -1)
        found = await self._forks.diff(request.run_id, request.other_run_id, by=principal())
        rest = [p for p in found.pairs if (p.step, p.call_index) > token]
        page, more = rest[:size], rest[size:]
        return pb.DiffRunsResponse(
            origin_run_id=found.origin,
            shared_messages=found.shared_messages,
            calls=map(history.pair_message, page),
            next_page_token=paging.to_token(page[-1].step, page[-1].call_index) if more else "",
        )


def _encode(forked: Forked) -> bytes:
    return history.forked_message(forked).SerializeToString()
