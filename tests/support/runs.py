"""A runner, as far as the approvals service sees one: `RunStatesService` on a real port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2, runs_pb2_grpc


class RunStates(runs_pb2_grpc.RunStatesServiceServicer):
    """Knows the runs that a test puts into `runs`."""

    def __init__(self) -> None:
        self.runs: dict[str, runs_pb2.RunStatus] = {}
        self.calls = 0

    def add(
        self,
        run_id: str,
        tenant_id: str,
        created_by: str,
        state: types_pb2.RunState.ValueType = types_pb2.RUN_STATE_RUNNING,
    ) -> None:
        """Let a run be known."""
        self.runs[run_id] = runs_pb2.RunStatus(
            run_id=run_id, tenant_id=tenant_id, created_by=created_by, state=state
        )

    async def GetRunStates(  # noqa: N802
        self, request: runs_pb2.GetRunStatesRequest, context: Any
    ) -> runs_pb2.GetRunStatesResponse:
        """See the proto."""
        self.calls += 1
        known = [self.runs[i] for i in request.run_ids if i in self.runs]
        return runs_pb2.GetRunStatesResponse(runs=known)


@asynccontextmanager
async def serving(runs: RunStates) -> AsyncIterator[str]:
    """Serve on a free port; its address."""
    server = aio.server()
    runs_pb2_grpc.add_RunStatesServiceServicer_to_server(runs, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
