"""`/v1/runs`."""

import asyncio
import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from google.protobuf.duration_pb2 import Duration
from hango.common.v1 import types_pb2
from hango.runs.v1 import runs_pb2 as pb
from hango_platform.errors import HangoError, InvalidRequest, Violation
from hango_platform.rpc.caller import Principal
from hango_platform.settings import parse_duration
from hango_policy import strict_json

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
from hango_gateway.mapping import bodies, models, runs, values

router = APIRouter(prefix="/v1/runs", tags=["runs"])

_LONGEST_WAIT = 60.0
_MARGIN = 5.0


@router.post(
    "",
    status_code=202,
    response_model=models.Run,
    **answers.described(400, 404, body=bodies.StartRun, key=True),
)
async def start_run(
    request: Request,
    owners: Owners,
    user: User,
    wait: Annotated[
        str | None,
        Query(description="Answer when the run pauses or ends, or after this time, such as 30s."),
    ] = None,
) -> Response:
    """Start a run."""
    seconds = _seconds(wait)
    key = answers.idempotency_key(request)
    raw = await answers.body_of(request)
    asked = pb.StartRunRequest(
        **_what_to_run(raw), idempotency_key=key, request_digest=hashlib.sha256(raw).digest()
    )
    run = (await owners.runner.write(owners.runs.StartRun, asked, user)).run
    if seconds:
        run = await _settled(request, owners, user, run, seconds)
    return Json(runs.run(run), 202, {"Location": f"/v1/runs/{run.id}"})


def _what_to_run(raw: bytes) -> dict[str, Any]:
    body, exact = bodies.read(bodies.StartRun, raw), strict_json.raw_members(raw)
    return {
        "agent": body.agent,
        "input_json": exact["input"],
        "thread_id": body.thread_id,
        "metadata_json": exact["metadata"] if body.metadata is not None else b"",
    }


def _seconds(wait: str | None) -> float:
    if wait is None:
        return 0.0
    try:
        return min(parse_duration(wait).total_seconds(), _LONGEST_WAIT)
    except (ValueError, OverflowError):
        why = "must be a duration such as 30s"
        raise InvalidRequest(violations=[Violation("/wait", why)]) from None


async def _settled(
    request: Request, owners: Owners, user: Principal, run: pb.Run, seconds: float
) -> pb.Run:
    """The run once it is paused or over; as it was started, where nobody can tell any more."""
    asked = pb.GetRunRequest(
        run_id=run.id, wait=Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))
    )
    waiting = asyncio.ensure_future(
        owners.runner.read(owners.runs.GetRun, asked, user, timeout=seconds + _MARGIN)
    )
    stopping = asyncio.ensure_future(request.app.state.stopping.wait())
    try:
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result().run if waiting.done() else run
    except HangoError:
        return run
    finally:
        waiting.cancel()
        stopping.cancel()


@router.get("", response_model=models.Page[models.Run], **answers.described(400))
async def list_runs(
    owners: Owners,
    user: User,
    state: models.RunState | None = None,
    agent: TextFilter = None,
    thread_id: TextFilter = None,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """List runs, newest first: owners and admins see all, members their own."""
    asked = pb.ListRunsRequest(
        state=values.number(types_pb2.RunState, state),
        agent=agent or "",
        thread_id=thread_id or "",
        page_size=page_size,
        page_token=page_token,
    )
    answer = await owners.runner.read(owners.runs.ListRuns, asked, user)
    return answers.page(map(runs.run, answer.runs), answer.next_page_token)


@router.get("/{run_id}", response_model=models.Run, **answers.described(400, 404))
async def get_run(owners: Owners, user: User, run_id: RunId) -> Response:
    """Read a run."""
    answer = await owners.runner.read(owners.runs.GetRun, pb.GetRunRequest(run_id=run_id), user)
    return Json(runs.run(answer.run))


@router.post("/{run_id}/cancel", response_model=models.Run, **answers.described(400, 404, key=True))
async def cancel_run(request: Request, owners: Owners, user: User, run_id: RunId) -> Response:
    """End a run. Tools that have started are not stopped."""
    key = answers.idempotency_key(request)
    raw = await answers.body_of(request)
    asked = pb.CancelRunRequest(
        run_id=run_id, idempotency_key=key, request_digest=hashlib.sha256(raw).digest()
    )
    return Json(runs.run((await owners.runner.write(owners.runs.CancelRun, asked, user)).run))


@router.get(
    "/{run_id}/messages", response_model=models.Page[models.Message], **answers.described(400, 404)
)
async def list_messages(
    owners: Owners,
    user: User,
    run_id: RunId,
    checkpoint_id: IdFilter = None,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """The transcript, oldest first; with a checkpoint of the run as it was there."""
    asked = pb.ListMessagesRequest(
        run_id=run_id,
        checkpoint_id=checkpoint_id or "",
        page_size=page_size,
        page_token=page_token,
    )
    answer = await owners.runner.read(owners.runs.ListMessages, asked, user)
    return answers.page(map(runs.message, answer.messages), answer.next_page_token)
