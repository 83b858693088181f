"""The audit trail."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from hango.approvals.v1 import approvals_pb2 as pb

from hango_gateway.auth import Admin
from hango_gateway.http import answers
from hango_gateway.http.answers import IdFilter, Json, Owners, PageSize, PageToken, TextFilter
from hango_gateway.mapping import audit, models

router = APIRouter(prefix="/v1/audit", tags=["audit"])

_VERIFY_TIMEOUT = 60.0  # it reads every row
_PAGE = 1000
_FARTHEST = 2**63 - 1
_NDJSON = "application/x-ndjson"
_EXPORTED = {
    "description": "Rows, oldest first.",
    "content": {_NDJSON: {"schema": {"type": "string"}}},
}


@router.get("", response_model=models.Page[models.AuditEvent], **answers.described(400, 403))
async def list_audit(
    owners: Owners,
    user: Admin,
    run_id: IdFilter = None,
    target_id: TextFilter = None,
    action: TextFilter = None,
    actor_id: IdFilter = None,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """Audit rows, newest first. `run_id` finds those of the run's approvals too."""
    asked = pb.ListAuditEventsRequest(
        run_id=run_id or "",
        target_id=target_id or "",
        action=action or "",
        actor_id=actor_id or "",
        page_size=page_size,
        page_token=page_token,
    )
    answer = await owners.approvals.read(owners.audit.ListAuditEvents, asked, user)
    return answers.page(map(audit.event, answer.events), answer.next_page_token)


@router.get(
    "/export",
    response_class=Response,
    **answers.described(400, 403, also={200: _EXPORTED}),
)
async def export_audit(
    owners: Owners,
    user: Admin,
    after: Annotated[int, Query(ge=0, le=_FARTHEST, description="Only rows behind this.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=_FARTHEST, description="No more rows.")] = None,
) -> Response:
    """The chain from its oldest row on, one JSON object a line, with all that the hashes are over.

    Where the oldest rows were pruned the first line is `{"checkpoint": …}`.
    """

    async def read(after: int, left: int | None) -> pb.ExportAuditResponse:
        size = _PAGE if left is None else min(left, _PAGE)
        asked = pb.ExportAuditRequest(after=after, page_size=size)
        answer: pb.ExportAuditResponse = await owners.approvals.read(
            owners.audit.ExportAudit, asked, user
        )
        return answer

    async def lines(page: pb.ExportAuditResponse, left: int | None) -> AsyncIterator[bytes]:
        if page.HasField("checkpoint") and after < page.checkpoint.seq:
            yield audit.checkpoint_line(page.checkpoint)
        while page.events:
            yield b"".join(map(audit.line, page.events))
            left = None if left is None else left - len(page.events)
            if left == 0:
                return
            page = await read(page.events[-1].seq, left)

    return StreamingResponse(lines(await read(after, limit), limit), media_type=_NDJSON)


@router.get("/verify", response_model=models.AuditCheck, **answers.described(403))
async def verify_audit(owners: Owners, user: Admin) -> Response:
    """Recompute the hash chain of the tenant. 200 also where it is broken."""
    answer = await owners.approvals.read(
        owners.audit.VerifyAudit, pb.VerifyAuditRequest(), user, timeout=_VERIFY_TIMEOUT
    )
    return Json(audit.verified(answer))
