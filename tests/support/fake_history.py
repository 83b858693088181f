"""R's threads, checkpoints and forks at the edge, for tests of the gateway."""

# ruff: noqa: N802 - methods of a servicer are named as in the proto
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.common.v1 import types_pb2
from hango.runs.v1 import history_pb2 as hpb
from hango.runs.v1 import history_pb2_grpc as hgrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango_platform import errors

from tests.support.fake_owners import A_PAGE, APPROVAL, EXACT, RUN, UNKNOWN, USERS, a_run, at

if TYPE_CHECKING:
    from tests.support.fake_owners import Owners


class History(hgrpc.ThreadsServiceServicer, hgrpc.CheckpointsServiceServicer):
    """One thread, and one checkpoint of the run."""

    def __init__(self, owners: Owners) -> None:
        self._o = owners
        self._thread = hpb.Thread(
            id="t-1", agent="writer", created_by=USERS["member"], created_at=at(), runs=2
        )
        self._checkpoint = hpb.Checkpoint(
            checkpoint_id=APPROVAL, turn=1, next="tools", message_count=2, created_at=at()
        )
        self._call = rpb.ToolCall(id="c1", name="bank__pay", arguments_raw=EXACT)

    async def ListThreads(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        return hpb.ListThreadsResponse(threads=[self._thread], next_page_token=A_PAGE)

    async def GetThread(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        if request.thread_id != self._thread.id:
            raise errors.NotFound
        return hpb.GetThreadResponse(thread=self._thread)

    async def ListThreadMessages(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        said = [hpb.ThreadMessage(run_id=RUN, message=m) for m in self._o.messages]
        return hpb.ListThreadMessagesResponse(messages=said)

    async def ListCheckpoints(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        return hpb.ListCheckpointsResponse(checkpoints=[self._checkpoint])

    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        call = hpb.JudgedCall(call=self._call, ruling="gated", allowed_decisions=["approve"])
        return hpb.GetCheckpointResponse(
            checkpoint=self._checkpoint,
            messages=self._o.messages,
            pending_calls=[call],
            todos_json=b'[{"content": "pay", "status": "pending"}]',
        )

    async def ForkRun(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        done = hpb.ExecutedCall(
            run_id=RUN, tool_call_id="c0", tool_name="bank__pay", state="unknown"
        )
        run = a_run(id=UNKNOWN, state=types_pb2.RUN_STATE_QUEUED, forked_from=RUN)
        return hpb.ForkRunResponse(run=run, effects_before=[done])

    async def DiffRuns(self, request: Any, context: Any) -> Any:
        self._o.heard(request)
        self._o.see(request.run_id)
        call = hpb.ComparedCall(
            call=self._call, decision="approve", state="succeeded", result_json=b'"paid"'
        )
        pair = hpb.CallPair(step=0, call_index=1, call=call)
        return hpb.DiffRunsResponse(origin_run_id=RUN, shared_messages=3, calls=[pair])


def services(owners: Owners) -> list[Any]:
    """What R's server serves of it."""
    history, h = History(owners), hpb.DESCRIPTOR.services_by_name
    return [
        (h["ThreadsService"], lambda s: hgrpc.add_ThreadsServiceServicer_to_server(history, s)),
        (
            h["CheckpointsService"],
            lambda s: hgrpc.add_CheckpointsServiceServicer_to_server(history, s),
        ),
    ]
