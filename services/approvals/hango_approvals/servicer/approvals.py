"""What people see, decide and audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2 as pb
from hango.approvals.v1 import approvals_pb2_grpc as grpc_pb
from hango_platform.rpc import caller, paging

from hango_approvals.domain.suspension import Filter
from hango_approvals.mapping import approvals as mapping
from hango_approvals.mapping import audit, values

if TYPE_CHECKING:
    from hango_approvals.use_cases.audit import ExportAudit, ListAudit, VerifyAudit
    from hango_approvals.use_cases.reading import GetApproval, ListApprovals
    from hango_approvals.use_cases.refusals import DecideOnRecord

_EXPORTED = 1000


class ApprovalsServicer(grpc_pb.ApprovalsServiceServicer):
    """`hango.approvals.v1.ApprovalsService`."""

    def __init__(self, decide: DecideOnRecord, get: GetApproval, list_: ListApprovals) -> None:
        self._decide = decide
        self._get = get
        self._list = list_

    async def DecideApprovals(
        self, request: pb.DecideApprovalsRequest, _context: Any
    ) -> pb.DecideApprovalsResponse:
        """See the proto."""
        attempt = mapping.attempt(request)
        return mapping.decided(await self._decide(attempt, by=caller.principal()))

    async def GetApproval(
        self, request: pb.GetApprovalRequest, _context: Any
    ) -> pb.GetApprovalResponse:
        """See the proto."""
        approval_id = values.required_id(request.approval_id, "/approval_id")
        found = await self._get(approval_id, by=caller.principal())
        return pb.GetApprovalResponse(
            approval=mapping.approval(found.suspension, found.approval),
            batch=mapping.approvals(found.suspension),
            lifecycle=[audit.record(r) for r in found.lifecycle],
        )

    async def ListApprovals(
        self, request: pb.ListApprovalsRequest, _context: Any
    ) -> pb.ListApprovalsResponse:
        """See the proto."""
        size = paging.page_size(request.page_size)
        wanted = Filter(
            state=values.state_from_proto(request.state),
            tool_name=values.plain(request.tool_name, "/tool_name"),
            agent=values.plain(request.agent, "/agent"),
            run_id=values.optional_id(request.run_id, "/run_id"),
        )
        after = values.place_from_token(request.page_token)
        found = await self._list(wanted, after, size + 1, by=caller.principal())
        page = found[:size]
        token = ""
        if len(found) > size:
            last = page[-1]
            token = paging.to_token(last.created_at, last.approvals[0].id)
        return pb.ListApprovalsResponse(
            approvals=[a for s in page for a in mapping.approvals(s)], next_page_token=token
        )


class AuditServicer(grpc_pb.AuditServiceServicer):
    """`hango.approvals.v1.AuditService`."""

    def __init__(self, list_: ListAudit, verify: VerifyAudit, export: ExportAudit) -> None:
        self._list = list_
        self._verify = verify
        self._export = export

    async def ListAuditEvents(
        self, request: pb.ListAuditEventsRequest, _context: Any
    ) -> pb.ListAuditEventsResponse:
        """See the proto."""
        size = paging.page_size(request.page_size)
        wanted = audit.audit_filter(request)
        before = values.number_from_token(request.page_token)
        found = await self._list(caller.principal().tenant_id, wanted, before, size + 1)
        page = found[:size]
        return pb.ListAuditEventsResponse(
            events=[audit.record(r) for r in page],
            next_page_token=paging.to_token(page[-1].seq) if len(found) > size else "",
        )

    async def VerifyAudit(
        self, _request: pb.VerifyAuditRequest, _context: Any
    ) -> pb.VerifyAuditResponse:
        """See the proto."""
        return audit.verified(await self._verify(caller.principal().tenant_id))

    async def ExportAudit(
        self, request: pb.ExportAuditRequest, _context: Any
    ) -> pb.ExportAuditResponse:
        """See the proto."""
        size = paging.page_size(request.page_size, default=_EXPORTED, largest=_EXPORTED)
        if request.after < 0:
            values.refuse("/after", "must not be negative")
        records, start = await self._export(caller.principal().tenant_id, request.after, size)
        return pb.ExportAuditResponse(
            events=[audit.record(r) for r in records],
            checkpoint=audit.checkpoint(start) if start is not None else None,
        )
