"""How routes answer, and how they are described in OpenAPI."""

from collections.abc import Iterable
from typing import Annotated, Any

import orjson
from fastapi import Depends, Path, Query, Request, Response
from hango_platform.errors import InvalidRequest, Violation
from pydantic import BaseModel

from hango_gateway.mapping import bodies
from hango_gateway.owners import Owners as _Owners

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_AGENT = "^[a-z0-9][a-z0-9-]{0,62}$"
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSALS = {
    400: "A field or a parameter is at fault.",
    401: "Credentials are missing or not valid.",
    403: "Your role does not allow this.",
    404: "There is no such thing, or you may not see it.",
    409: "Something stands in the way.",
    422: "The idempotency key was used for another request.",
    503: "The owner of the data is away.",
    504: "It is not known whether this was done.",
}


def _owners(request: Request) -> _Owners:
    owners: _Owners = request.app.state.owners
    return owners


Owners = Annotated[_Owners, Depends(_owners)]
RunId = Annotated[str, Path(pattern=_UUID, json_schema_extra={"format": "uuid"})]
AgentName = Annotated[str, Path(pattern=_AGENT)]
PageSize = Annotated[int, Query(ge=1, le=200, description="At most so many items.")]
PageToken = Annotated[str, Query(max_length=1024, description="Where to go on.")]
IdFilter = Annotated[str | None, Query(pattern=_UUID, json_schema_extra={"format": "uuid"})]
TextFilter = Annotated[str | None, Query(min_length=1, max_length=256, pattern="^[^\\x00]*$")]


class Json(Response):
    """JSON, Fragments included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write it."""
        return orjson.dumps(content)


def page(items: Iterable[Any], next_page_token: str) -> Json:
    """A part of a list."""
    return Json({"items": list(items), "next_page_token": next_page_token or None})


def described(
    *refusals: int,
    body: type[BaseModel] | None = None,
    key: bool = False,
    also: dict[int, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The part of a route's description that FastAPI cannot know: which problems it answers, the
    body that it reads by itself, whether it takes an idempotency key, and its other good answers.
    """
    statuses = sorted({401, 503, *refusals, *((400, 409, 422, 504) if key else ())})
    extra: dict[str, Any] = {}
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        extra["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    if key:
        extra["parameters"] = [_KEY]
    return {
        "responses": {
            **(also or {}),
            **{s: {"description": _REFUSALS[s], "content": _PROBLEM} for s in statuses},
            "default": {"description": "Any other problem.", "content": _PROBLEM},
        },
        "openapi_extra": extra,
    }


_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a repeat safe for 24 h: the same key and body, the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def idempotency_key(request: Request) -> str:
    """The key of a request; empty for none. Raises InvalidRequest."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return ""
    if not 1 <= len(key) <= 255 or not all("!" <= c <= "~" for c in key):
        why = "must be 1 to 255 visible ASCII characters"
        raise InvalidRequest(violations=[Violation("/idempotency_key", why)])
    return key


async def body_of(request: Request) -> bytes:
    """The body as it came. Raises InvalidRequest where it is too long to be read."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > bodies.MAX_BYTES:
            why = f"is longer than {bodies.MAX_BYTES} bytes"
            raise InvalidRequest(violations=[Violation("", why)])
        chunks.append(chunk)
    return b"".join(chunks)
