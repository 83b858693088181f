"""The parts of the sweeper: which method is called how often."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2, approvals_pb2_grpc
from hango.runs.v1 import runs_pb2, runs_pb2_grpc
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tls import Tls
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry.metrics import Metrics

from hango_sweeper.sweeps import Sweep, keep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from hango_platform.lifecycle import Tasks

    from hango_sweeper.settings import Settings

log = logging.getLogger(__name__)

_TIMEOUT = 30.0  # an owner may be busy; a call that it gave up is safe to repeat


async def start(settings: Settings, stack: AsyncExitStack, tasks: Tasks) -> Mapping[str, Any]:
    """Sweep in the background. Works, and waits, whether the owners are up or not."""
    metrics = Metrics()
    internal = Tokens(settings.internal_key.get_secret_value(), "sweeper")
    tls = Tls.of(settings)
    approvals = Channel(settings.approvals_addr, internal, tls)
    runner = Channel(settings.runner_addr, internal, tls)
    stack.push_async_callback(approvals.close)
    stack.push_async_callback(runner.close)
    for sweep in sweeps(settings, approvals, runner, metrics):
        tasks.spawn(keep(sweep, metrics), sweep.name)
    return {"metrics": metrics.serve(settings.metrics_addr)}


def sweeps(
    settings: Settings, approvals: Channel, runner: Channel, metrics: Metrics
) -> list[Sweep]:
    """Everything that only the passing of time brings about (protocol, section 7)."""
    a = approvals_pb2_grpc.ApprovalsMaintenanceServiceStub(approvals.raw)
    r = runs_pb2_grpc.RunsMaintenanceServiceStub(runner.raw)
    a_pb, r_pb, s = approvals_pb2, runs_pb2, settings
    return [
        _sweep(
            s.approval_sweep_interval, approvals, a.ExpireSuspensions, a_pb.ExpireSuspensionsRequest
        ),
        _sweep(s.reap_interval, runner, r.ReapRuns, r_pb.ReapRunsRequest),
        _sweep(s.reconcile_interval, runner, r.ReconcileRuns, r_pb.ReconcileRunsRequest),
        _sweep(
            s.orphan_interval, approvals, a.ReconcileSuspensions, a_pb.ReconcileSuspensionsRequest
        ),
        _sweep(s.prune_interval, approvals, a.PruneApprovals, a_pb.PruneApprovalsRequest),
        _sweep(s.prune_interval, runner, r.PruneRuns, r_pb.PruneRunsRequest),
        _check(s.check_interval, approvals, a.CheckApprovals, metrics),
    ]


def _sweep(interval: timedelta, channel: Channel, method: Any, request: Any) -> Sweep:
    """Calls a method that takes a limit and answers with counts of what it did."""

    async def work(limit: int) -> int:
        answer = await channel.call(method, request(limit=limit), timeout=_TIMEOUT)
        return max(_counts(answer).values())

    name = request.DESCRIPTOR.name.removesuffix("Request")
    return Sweep(name, interval.total_seconds(), work)


def _check(interval: timedelta, approvals: Channel, method: Any, metrics: Metrics) -> Sweep:
    """Counts what must never be. It is for people to look into, so it goes to log and metrics."""

    async def work(_limit: int) -> int:
        request = approvals_pb2.CheckApprovalsRequest()
        faults = _counts(await approvals.call(method, request, timeout=_TIMEOUT))
        for fault, count in faults.items():
            metrics.approvals_faults.labels(fault).set(count)
        if any(faults.values()):
            log.error("decisions, audit and what ran do not agree", extra=faults)
        return 0

    return Sweep("CheckApprovals", interval.total_seconds(), work)


def _counts(answer: Any) -> dict[str, int]:
    return {field.name: getattr(answer, field.name) for field in answer.DESCRIPTOR.fields}
