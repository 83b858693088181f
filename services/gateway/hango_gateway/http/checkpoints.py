"""Checkpoints of runs, forks, and where two runs part."""

import hashlib
from typing import Any

from fastapi import APIRouter, Request, Response
from hango.runs.v1 import history_pb2 as pb
from hango_policy import strict_json

from hango_gateway.auth import User
from hango_gateway.http import answers
from hango_gateway.http.answers import Json, Owners, PageSize, PageToken, RunId
from hango_gateway.mapping import bodies, history, models

router = APIRouter(prefix="/v1/runs", tags=["checkpoints"])


@router.get(
    "/{run_id}/checkpoints",
    response_model=models.Page[models.Checkpoint],
    **answers.described(400, 404),
)
async def list_checkpoints(
    owners: Owners, user: User, run_id: RunId, page_size: PageSize = 50, page_token: PageToken = ""
) -> Response:
    """The points where the run could stop, oldest first."""
    asked = pb.ListCheckpointsRequest(run_id=run_id, page_size=page_size, page_token=page_token)
    answer = await owners.runner.read(owners.checkpoints.ListCheckpoints, asked, user)
    return answers.page(map(history.checkpoint, answer.checkpoints), answer.next_page_token)


@router.get(
    "/{run_id}/checkpoints/{checkpoint_id}",
    response_model=models.CheckpointState,
    **answers.described(400, 404),
)
async def get_checkpoint(
    owners: Owners,
    user: User,
    run_id: RunId,
    checkpoint_id: RunId,
    page_size: PageSize = 200,
    page_token: PageToken = "",
) -> Response:
    """The state there: the messages up to it (by pages), the open calls, the todos."""
    asked = pb.GetCheckpointRequest(
        run_id=run_id, checkpoint_id=checkpoint_id, page_size=page_size, page_token=page_token
    )
    answer = await owners.runner.read(owners.checkpoints.GetCheckpoint, asked, user)
    return Json(history.state(answer))


@router.post(
    "/{run_id}/fork",
    status_code=202,
    response_model=models.ForkedRun,
    **answers.described(400, 403, 404, body=bodies.ForkRun, key=True),
)
async def fork_run(request: Request, owners: Owners, user: User, run_id: RunId) -> Response:
    """Start a new run from a checkpoint. The original stays as it is; none of its decisions and
    executions is used again.
    """
    key = answers.idempotency_key(request)
    raw = await answers.body_of(request)
    asked = pb.ForkRunRequest(
        run_id=run_id,
        **_how_to_go_on(raw),
        idempotency_key=key,
        request_digest=hashlib.sha256(raw).digest(),
    )
    found = await owners.runner.write(owners.checkpoints.ForkRun, asked, user)
    return Json(history.forked(found), 202, {"Location": f"/v1/runs/{found.run.id}"})


@router.get(
    "/{run_id}/diff/{other_run_id}",
    response_model=models.Difference,
    **answers.described(400, 404, 409),
)
async def diff_runs(
    owners: Owners,
    user: User,
    run_id: RunId,
    other_run_id: RunId,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """Where two runs of one origin part: their calls and results from there on, side by side."""
    asked = pb.DiffRunsRequest(
        run_id=run_id, other_run_id=other_run_id, page_size=page_size, page_token=page_token
    )
    answer = await owners.runner.read(owners.checkpoints.DiffRuns, asked, user)
    return Json(history.difference(answer))


def _how_to_go_on(raw: bytes) -> dict[str, Any]:
    body, exact = bodies.read(bodies.ForkRun, raw), strict_json.raw_members(raw)
    edits = {}
    if body.edit_calls is not None:
        for call_id, edit in strict_json.raw_members(exact["edit_calls"]).items():
            edits[call_id] = strict_json.raw_members(edit)["args"]
    return {
        "checkpoint_id": body.checkpoint_id,
        "input_json": exact["input"] if body.input is not None else None,
        "edit_calls": edits,
    }
