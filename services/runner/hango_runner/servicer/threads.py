"""`hango.runs.v1.ThreadsService`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from hango.runs.v1 import history_pb2 as pb
from hango.runs.v1 import history_pb2_grpc
from hango_platform.rpc import paging
from hango_platform.rpc.caller import principal

from hango_runner.servicer import history

if TYPE_CHECKING:
    from hango_runner.postgres.threads import SqlThreads


class ThreadsServicer(history_pb2_grpc.ThreadsServiceServicer):
    """Conversations over several runs."""

    def __init__(self, threads: SqlThreads) -> None:
        self._threads = threads

    async def ListThreads(
        self, request: pb.ListThreadsRequest, context: Any
    ) -> pb.ListThreadsResponse:
        """List them."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, datetime, str)
        found = await self._threads.list_page(after, size + 1, principal())
        threads, more = found[:size], found[size:]
        token = paging.to_token(threads[-1].created_at, threads[-1].id) if more else ""
        return pb.ListThreadsResponse(
            threads=map(history.thread_message, threads), next_page_token=token
        )

    async def GetThread(self, request: pb.GetThreadRequest, context: Any) -> pb.GetThreadResponse:
        """Read one."""
        found = await self._threads.get(request.thread_id, principal())
        return pb.GetThreadResponse(thread=history.thread_message(found))

    async def ListThreadMessages(
        self, request: pb.ListThreadMessagesRequest, context: Any
    ) -> pb.ListThreadMessagesResponse:
        """The conversation."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, datetime, str, int)
        found = await self._threads.messages(request.thread_id, after, size + 1, principal())
        rows, more = found[:size], found[size:]
        token = ""
        if more:
            last = rows[-1]
            token = paging.to_token(last["run_created_at"], str(last["run_id"]), last["seq"])
        return pb.ListThreadMessagesResponse(
            messages=map(history.said_message, rows), next_page_token=token
        )
