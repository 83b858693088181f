"""`hango.runs.v1.RunsService` and `RunStatesService`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from hango.runs.v1 import runs_pb2 as pb
from hango.runs.v1 import runs_pb2_grpc
from hango_platform.errors import InvalidRequest, OutcomeUnknown, Unavailable, Violation
from hango_platform.rpc import paging
from hango_platform.rpc.caller import principal, recheck

from hango_runner import mapping
from hango_runner.domain.run import RunState, RunView
from hango_runner.servicer.requests import repeat_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hango_runner.postgres.stories import SqlStories
    from hango_runner.use_cases.runs import Runs
    from hango_runner.wakes import Wakes

_LONGEST_WAIT = 60.0
_EVENTS = 200
_MOST_EVENTS = 1000
_MOST_STATES = 500


class RunsServicer(runs_pb2_grpc.RunsServiceServicer):
    """Runs, their transcripts and their stories."""

    def __init__(self, runs: Runs, stories: SqlStories, wakes: Wakes) -> None:
        self._runs = runs
        self._stories = stories
        self._wakes = wakes

    async def StartRun(self, request: pb.StartRunRequest, context: Any) -> pb.StartRunResponse:
        """Queue a run."""
        started = await self._runs.start(
            request.agent,
            request.input_json,
            request.metadata_json,
            request.thread_id if request.HasField("thread_id") else None,
            by=principal(),
            repeat=repeat_of("runs", request),
            encode=_encode,
        )
        if isinstance(started, bytes):
            return pb.StartRunResponse(run=pb.Run.FromString(started))
        if wait := _wait(request):
            started = await self._runs.get(started.id, by=principal(), wait=wait, new=True)
        return pb.StartRunResponse(run=mapping.run_message(started))

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        """Read one."""
        run = await self._runs.get(request.run_id, by=principal(), wait=_wait(request))
        return pb.GetRunResponse(run=mapping.run_message(run))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        """List them."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, datetime, str)
        found = await self._runs.list_page(
            by=principal(),
            state=mapping.run_state(request.state),
            agent=request.agent or None,
            thread_id=request.thread_id or None,
            after=after,
            limit=size + 1,
        )
        runs, more = found[:size], found[size:]
        token = paging.to_token(runs[-1].created_at, runs[-1].id) if more else ""
        return pb.ListRunsResponse(runs=map(mapping.run_message, runs), next_page_token=token)

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        """End one."""
        repeat = repeat_of(f"runs/{request.run_id}/cancel", request)
        run = await self._runs.cancel(request.run_id, by=principal(), repeat=repeat, encode=_encode)
        if isinstance(run, bytes):
            return pb.CancelRunResponse(run=pb.Run.FromString(run))
        return pb.CancelRunResponse(run=mapping.run_message(run))

    async def ListMessages(
        self, request: pb.ListMessagesRequest, context: Any
    ) -> pb.ListMessagesResponse:
        """The transcript."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, int) or (0,)
        found = await self._stories.messages(
            request.run_id, after[0], size + 1, principal(), request.checkpoint_id or None
        )
        rows, more = found[:size], found[size:]
        token = paging.to_token(rows[-1]["seq"]) if more else ""
        return pb.ListMessagesResponse(
            messages=map(mapping.transcript_message, rows), next_page_token=token
        )

    async def ListRunEvents(
        self, request: pb.ListRunEventsRequest, context: Any
    ) -> pb.ListRunEventsResponse:
        """The story after a number."""
        size = paging.page_size(request.page_size, default=_EVENTS, largest=_MOST_EVENTS)
        rows, over = await self._stories.events(
            request.run_id, _cursor(request.after), size, principal()
        )
        events = [mapping.event_message(request.run_id, r) for r in rows]
        return pb.ListRunEventsResponse(events=events, finished=over)

    async def WatchRunEvents(
        self, request: pb.WatchRunEventsRequest, context: Any
    ) -> AsyncIterator[pb.WatchRunEventsResponse]:
        """The story after a number, then live, by the same cursor."""
        after = _cursor(request.after)
        with self._wakes.listening(request.run_id) as wake:
            while True:
                wake.clear()
                try:
                    by = await recheck()
                except (Unavailable, OutcomeUnknown):
                    # Nothing is told until it is known who listens.
                    await wake.wait(0.5)
                    continue
                rows, over = await self._stories.events(request.run_id, after, _EVENTS, by)
                for row in rows:
                    after = row["seq"]
                    event = mapping.event_message(request.run_id, row)
                    yield pb.WatchRunEventsResponse(event=event)
                if over:
                    return
                if len(rows) < _EVENTS:
                    await wake.wait(2.0)


class RunStatesServicer(runs_pb2_grpc.RunStatesServiceServicer):
    """What A asks about runs."""

    def __init__(self, stories: SqlStories) -> None:
        self._stories = stories

    async def GetRunStates(
        self, request: pb.GetRunStatesRequest, context: Any
    ) -> pb.GetRunStatesResponse:
        """The states, as the API shows them."""
        if len(request.run_ids) > _MOST_STATES:
            msg = f"at most {_MOST_STATES} runs at once"
            raise InvalidRequest(msg, violations=[Violation("/run_ids", msg)])
        rows = await self._stories.states(request.run_ids)
        statuses = []
        for r in rows:
            state = RunState(r["state"])
            if state is RunState.AWAITING_APPROVAL and r["suspension_opened_at"] is None:
                state = RunState.RUNNING
            statuses.append(
                pb.RunStatus(
                    run_id=str(r["id"]),
                    tenant_id=str(r["tenant_id"]),
                    created_by=str(r["created_by"]),
                    state=mapping.run_state_message(state),
                )
            )
        return pb.GetRunStatesResponse(runs=statuses)


def _encode(run: RunView) -> bytes:
    return mapping.run_message(run).SerializeToString()


def _wait(request: pb.StartRunRequest | pb.GetRunRequest) -> float:
    if not request.HasField("wait"):
        return 0.0
    return min(max(request.wait.ToTimedelta().total_seconds(), 0.0), _LONGEST_WAIT)


def _cursor(after: int) -> int:
    if after < 0:
        msg = "after is the number of an event"
        raise InvalidRequest(msg, violations=[Violation("/after", "must not be negative")])
    return after
