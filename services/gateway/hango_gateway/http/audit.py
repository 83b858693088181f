"""The audit trail."""

from fastapi import APIRouter, Response
from hango.approvals.v1 import approvals_pb2 as pb

from hango_gateway.auth import Admin
from hango_gateway.http import answers
from hango_gateway.http.answers import IdFilter, Json, Owners, PageSize, PageToken, TextFilter
from hango_gateway.mapping import audit, models

router = APIRouter(prefix="/v1/audit", tags=["audit"])

_VERIFY_TIMEOUT = 60.0  # it reads every row


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


@router.get("/verify", response_model=models.AuditCheck, **answers.described(403))
async def verify_audit(owners: Owners, user: Admin) -> Response:
    """Recompute the hash chain of the tenant. 200 also where it is broken."""
    answer = await owners.approvals.read(
        owners.audit.VerifyAudit, pb.VerifyAuditRequest(), user, timeout=_VERIFY_TIMEOUT
    )
    return Json(audit.verified(answer))
