"""Server-sent events."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from hango_platform.errors import InvalidRequest, Violation
from sse_starlette import EventSourceResponse, ServerSentEvent

from hango_gateway.auth import Admin, Credential, User
from hango_gateway.http import answers
from hango_gateway.http.answers import RunId
from hango_gateway.http.edge import HEAD

if TYPE_CHECKING:
    from hango_gateway.streams import RunStreams, TenantStreams

router = APIRouter(prefix="/v1", tags=["events"])

KEEP_ALIVE = 15.0
_PATIENCE = 30.0
"""Seconds that a client may leave an event unread."""
_FARTHEST = 2**63 - 1
_MANY_DIGITS = 1000
_STREAM = {
    "description": "Events, as they happen.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
_OVER = {"description": "The run is over, and nothing comes after that event."}


@router.get(
    "/runs/{run_id}/events",
    response_class=Response,
    **answers.described(400, 404, also={200: _STREAM, 204: _OVER}),
)
async def run_events(
    request: Request,
    user: User,
    credential: Credential,
    run_id: RunId,
    after: Annotated[str | None, Query(description="Only events after this number.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="The same, as browsers send it; it wins.")
    ] = None,
) -> Response:
    """A run's story from the start or after an event, then live; it ends after `run.finished`.

    204 where the run is over and nothing comes after that event.
    """
    seen, asked = _cursor(last_event_id, "/last_event_id"), _cursor(after, "/after")
    cursor = next((c for c in (seen, asked) if c is not None), 0)
    streams: RunStreams = request.app.state.run_streams
    found = await streams.read(run_id, cursor, user)
    if found.finished and not found.events:
        return Response(status_code=204)
    return _stream(request, streams.follow(run_id, cursor, credential, found))


@router.get("/events", response_class=Response, **answers.described(403, also={200: _STREAM}))
async def tenant_events(request: Request, user: Admin, credential: Credential) -> Response:
    """What happens in the tenant, live only and without ids: refetch the queue on connect."""
    streams: TenantStreams = request.app.state.tenant_streams
    return _stream(request, streams.follow(credential, user))


def _cursor(text: str | None, pointer: str) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest(violations=[Violation(pointer, "must be the number of an event")])
    # Any number ahead of the end waits, however large it is.
    return min(int(text), _FARTHEST) if len(text) < _MANY_DIGITS else _FARTHEST


def _stream(request: Request, events: AsyncIterator[bytes]) -> Response:
    if HEAD in request.scope:
        return Response(media_type="text/event-stream")
    return EventSourceResponse(
        events,
        sep="\n",
        ping=KEEP_ALIVE,
        ping_message_factory=lambda: ServerSentEvent(comment="keep-alive", sep="\n"),
        send_timeout=_PATIENCE,
    )
