"""Approvals: the queue, one of them, those of a run, and deciding."""

import hashlib

from fastapi import APIRouter, Request, Response
from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform.errors import InvalidRequest, Violation

from hango_gateway.auth import User
from hango_gateway.http import answers
from hango_gateway.http.answers import (
    IdFilter,
    Json,
    Owners,
    PageSize,
    PageToken,
    RunId,
    TextFilter,
)
from hango_gateway.mapping import approvals, bodies, decisions, models, values

router = APIRouter(prefix="/v1", tags=["approvals"])


@router.get(
    "/approvals", response_model=models.Page[models.Approval], **answers.described(400, 404)
)
async def list_approvals(
    owners: Owners,
    user: User,
    state: models.ApprovalState | None = None,
    tool: TextFilter = None,
    agent: TextFilter = None,
    run_id: IdFilter = None,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """The tenant's queue, oldest first: owners and admins see all, members their own runs'."""
    asked = pb.ListApprovalsRequest(
        state=values.number(types_pb2.ApprovalState, state),
        tool_name=tool or "",
        agent=agent or "",
        run_id=run_id or "",
        page_size=page_size,
        page_token=page_token,
    )
    answer = await owners.approvals.read(owners.decisions.ListApprovals, asked, user)
    return answers.page(map(approvals.approval, answer.approvals), answer.next_page_token)


@router.get(
    "/runs/{run_id}/approvals",
    response_model=models.Page[models.Approval],
    **answers.described(400, 404),
)
async def list_approvals_of_run(
    owners: Owners,
    user: User,
    run_id: RunId,
    state: models.ApprovalState | None = None,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """All approvals of a run, oldest first."""
    return await list_approvals(
        owners, user, state, run_id=run_id, page_size=page_size, page_token=page_token
    )


@router.get(
    "/approvals/{approval_id}",
    response_model=models.ApprovalDetail,
    **answers.described(400, 404),
)
async def get_approval(owners: Owners, user: User, approval_id: RunId) -> Response:
    """One approval, with all of its suspension and what has happened to it."""
    asked = pb.GetApprovalRequest(approval_id=approval_id)
    answer = await owners.approvals.read(owners.decisions.GetApproval, asked, user)
    return Json(approvals.detail(answer))


@router.post(
    "/runs/{run_id}/approvals",
    response_model=models.Decided,
    **answers.described(403, 404, body=bodies.Decide, key=True),
)
async def decide(request: Request, owners: Owners, user: User, run_id: str) -> Response:
    """Decide on every pending call of a run, once.

    Whatever is wrong with the id, the key or the body is told to the approvals service, which
    refuses it after it has looked at the caller's right and the run.
    """
    asked = pb.DecideApprovalsRequest(run_id=run_id)
    faults: list[Violation] = []
    try:
        asked.idempotency_key = answers.idempotency_key(request)
    except InvalidRequest as error:
        faults += error.violations
    try:
        raw = await answers.body_of(request)
    except InvalidRequest as error:
        faults += error.violations
    else:
        reading = decisions.read(raw)
        asked.decisions.extend(reading.decisions)
        asked.request_digest = hashlib.sha256(raw).digest()
        faults += reading.violations
    asked.violations.extend(
        types_pb2.FieldViolation(pointer=f.pointer, message=f.message) for f in faults
    )
    answer = await owners.approvals.write(owners.decisions.DecideApprovals, asked, user)
    return Json(approvals.decided(answer))
