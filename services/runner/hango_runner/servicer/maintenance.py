"""`hango.runs.v1.RunsMaintenanceService`: the sweeper's clock, over all tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.runs.v1 import runs_pb2 as pb
from hango.runs.v1 import runs_pb2_grpc

if TYPE_CHECKING:
    from hango_platform.telemetry.metrics import Metrics

    from hango_runner.postgres.queue import SqlQueue
    from hango_runner.use_cases.suspensions import Suspensions

_LIMIT = 500


class RunsMaintenanceServicer(runs_pb2_grpc.RunsMaintenanceServiceServicer):
    """Every call is idempotent; two sweepers at once are harmless."""

    def __init__(self, queue: SqlQueue, suspensions: Suspensions, metrics: Metrics) -> None:
        self._queue = queue
        self._suspensions = suspensions
        self._metrics = metrics

    async def ReapRuns(self, request: pb.ReapRunsRequest, context: Any) -> pb.ReapRunsResponse:
        """T6, and calls that nobody will report any more."""
        limit = request.limit or _LIMIT
        reaped = await self._queue.reap(limit)
        return pb.ReapRunsResponse(reaped=reaped, closed_calls=await self._queue.close_left(limit))

    async def ReconcileRuns(
        self, request: pb.ReconcileRunsRequest, context: Any
    ) -> pb.ReconcileRunsResponse:
        """S1, T3, T4, T4w for runs that a lost message left waiting."""
        repaired = await self._suspensions.reconcile(request.limit or _LIMIT)
        self._metrics.reconciler_repairs.inc(repaired)
        return pb.ReconcileRunsResponse(repaired=repaired)

    async def PruneRuns(self, request: pb.PruneRunsRequest, context: Any) -> pb.PruneRunsResponse:
        """What is old."""
        return pb.PruneRunsResponse(deleted=await self._queue.prune(request.limit or _LIMIT))
