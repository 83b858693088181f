"""The runner's side, and the clock's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from hango.approvals.v1 import approvals_pb2 as pb
from hango.approvals.v1 import approvals_pb2_grpc as grpc_pb
from hango_platform.errors import InvalidRequest

from hango_approvals.mapping import approvals as mapping
from hango_approvals.mapping import audit, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hango_approvals.use_cases.audit import CheckApprovals
    from hango_approvals.use_cases.expire import ExpireSuspensions
    from hango_approvals.use_cases.open import OpenSuspension
    from hango_approvals.use_cases.report import RecordAudit, ReportExecutions
    from hango_approvals.use_cases.verdicts import GetVerdicts, PruneApprovals
    from hango_approvals.use_cases.withdraw import ReconcileSuspensions, WithdrawSuspension

log = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Read = TypeVar("_Read")

_MAX_ITEMS = 500
_MAX_LIMIT = 10_000


class SuspensionsServicer(grpc_pb.SuspensionsServiceServicer):
    """`hango.approvals.v1.SuspensionsService`."""

    def __init__(
        self,
        open_: OpenSuspension,
        verdicts: GetVerdicts,
        withdraw: WithdrawSuspension,
        report: ReportExecutions,
        record: RecordAudit,
    ) -> None:
        self._open = open_
        self._verdicts = verdicts
        self._withdraw = withdraw
        self._report = report
        self._record = record

    async def OpenSuspension(
        self, request: pb.OpenSuspensionRequest, _context: Any
    ) -> pb.OpenSuspensionResponse:
        """See the proto."""
        found = await self._open(
            request.suspension_id,
            mapping.origin(request),
            mapping.calls(request),
            turn=request.turn,
            batch_sha256=request.batch_sha256,
            traceparent=request.traceparent,
        )
        return pb.OpenSuspensionResponse(
            state=values.state_to_proto(found.state),
            approvals=mapping.opened(found.approvals),
            expires_at=values.time_to_proto(found.expires_at),
            opened_at=values.time_to_proto(found.opened_at),
        )

    async def GetVerdicts(
        self, request: pb.GetVerdictsRequest, _context: Any
    ) -> pb.GetVerdictsResponse:
        """See the proto."""
        _check_number(len(request.suspension_ids), "/suspension_ids")
        wanted = [
            values.required_id(text, f"/suspension_ids/{i}")
            for i, text in enumerate(request.suspension_ids)
        ]
        return pb.GetVerdictsResponse(
            verdicts=[mapping.verdict(v) for v in await self._verdicts(wanted)]
        )

    async def WithdrawSuspension(
        self, request: pb.WithdrawSuspensionRequest, _context: Any
    ) -> pb.WithdrawSuspensionResponse:
        """See the proto."""
        state = await self._withdraw(
            request.suspension_id,
            mapping.origin(request),
            by=values.optional_id(request.actor_id, "/actor_id"),
        )
        return pb.WithdrawSuspensionResponse(state=values.state_to_proto(state))

    async def ReportExecutions(
        self, request: pb.ReportExecutionsRequest, _context: Any
    ) -> pb.ReportExecutionsResponse:
        """See the proto."""
        _check_number(len(request.reports), "/reports")
        await self._report(_sound(audit.report, request.reports))
        return pb.ReportExecutionsResponse()

    async def RecordAudit(
        self, request: pb.RecordAuditRequest, _context: Any
    ) -> pb.RecordAuditResponse:
        """See the proto."""
        _check_number(len(request.records), "/records")
        await self._record(_sound(audit.entry, request.records))
        return pb.RecordAuditResponse()


class MaintenanceServicer(grpc_pb.ApprovalsMaintenanceServiceServicer):
    """`hango.approvals.v1.ApprovalsMaintenanceService`."""

    def __init__(
        self,
        expire: ExpireSuspensions,
        reconcile: ReconcileSuspensions,
        prune: PruneApprovals,
        check: CheckApprovals,
    ) -> None:
        self._expire = expire
        self._reconcile = reconcile
        self._prune = prune
        self._check = check

    async def ExpireSuspensions(
        self, request: pb.ExpireSuspensionsRequest, _context: Any
    ) -> pb.ExpireSuspensionsResponse:
        """See the proto."""
        return pb.ExpireSuspensionsResponse(expired=await self._expire(_limit(request.limit)))

    async def ReconcileSuspensions(
        self, request: pb.ReconcileSuspensionsRequest, _context: Any
    ) -> pb.ReconcileSuspensionsResponse:
        """See the proto."""
        repaired = await self._reconcile(_limit(request.limit))
        return pb.ReconcileSuspensionsResponse(repaired=repaired)

    async def PruneApprovals(
        self, request: pb.PruneApprovalsRequest, _context: Any
    ) -> pb.PruneApprovalsResponse:
        """See the proto."""
        return pb.PruneApprovalsResponse(deleted=await self._prune(_limit(request.limit)))

    async def CheckApprovals(
        self, _request: pb.CheckApprovalsRequest, _context: Any
    ) -> pb.CheckApprovalsResponse:
        """See the proto."""
        return pb.CheckApprovalsResponse(**await self._check())


def _sound(read: Callable[[int, _Item], _Read], items: Iterable[_Item]) -> list[_Read]:
    """What can be read of reports. They travel together, and come again until they are taken: one
    that makes no sense must not keep the others from being taken.
    """
    found = []
    for position, item in enumerate(items):
        try:
            found.append(read(position, item))
        except InvalidRequest as error:
            faults = [f"{v.pointer} {v.message}" for v in error.violations]
            log.error("a report makes no sense", extra={"faults": faults})
    return found


def _check_number(items: int, pointer: str) -> None:
    if items > _MAX_ITEMS:
        values.refuse(pointer, f"has more than {_MAX_ITEMS} items")


def _limit(value: int) -> int:
    if not 0 < value <= _MAX_LIMIT:
        values.refuse("/limit", f"must be from 1 to {_MAX_LIMIT}")
    return value
