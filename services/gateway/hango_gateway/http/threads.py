"""`/v1/threads`."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from hango.runs.v1 import history_pb2 as pb

from hango_gateway.auth import User
from hango_gateway.http import answers
from hango_gateway.http.answers import Json, Owners, PageSize, PageToken
from hango_gateway.mapping import history, models

router = APIRouter(prefix="/v1/threads", tags=["threads"])

ThreadId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=128,
        pattern="^[^/\\x00-\\x1f]+$",
        description="The name that its first run gave it.",
    ),
]


@router.get("", response_model=models.Page[models.Thread], **answers.described(400))
async def list_threads(
    owners: Owners, user: User, page_size: PageSize = 50, page_token: PageToken = ""
) -> Response:
    """List threads, newest first: owners and admins see all, members their own."""
    asked = pb.ListThreadsRequest(page_size=page_size, page_token=page_token)
    answer = await owners.runner.read(owners.threads.ListThreads, asked, user)
    return answers.page(map(history.thread, answer.threads), answer.next_page_token)


@router.get("/{thread_id}", response_model=models.Thread, **answers.described(400, 404))
async def get_thread(owners: Owners, user: User, thread_id: ThreadId) -> Response:
    """Read a thread."""
    asked = pb.GetThreadRequest(thread_id=thread_id)
    answer = await owners.runner.read(owners.threads.GetThread, asked, user)
    return Json(history.thread(answer.thread))


@router.get(
    "/{thread_id}/messages",
    response_model=models.Page[models.ThreadMessage],
    **answers.described(400, 404),
)
async def list_thread_messages(
    owners: Owners,
    user: User,
    thread_id: ThreadId,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> Response:
    """The conversation over all runs of the thread that you may see, oldest first, without what
    subagents said.
    """
    asked = pb.ListThreadMessagesRequest(
        thread_id=thread_id, page_size=page_size, page_token=page_token
    )
    answer = await owners.runner.read(owners.threads.ListThreadMessages, asked, user)
    return answers.page(map(history.thread_message, answer.messages), answer.next_page_token)
