"""Refusals: problem documents (RFC 9457), and a page about each kind."""

import html
import inspect
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from hango_platform import errors
from hango_platform.errors import BY_REASON, HangoError, InvalidRequest, NotFound
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from hango_gateway.http.html import page
from hango_gateway.mapping.bodies import violations

router = APIRouter(include_in_schema=False)

_RETRY_AFTER = "1"
_NOT_ALLOWED = 405
_BY_SLUG = {cls.slug(): cls for cls in BY_REASON.values()}
# Where FastAPI found a fault: the part of the request, which is no part of the pointer.
_PART = 1


def problem(error: HangoError, *, status: int | None = None, **headers: str) -> Response:
    """The document about an error. It holds what the error says and nothing of the request."""
    document: dict[str, Any] = {
        "type": f"/problems/{error.slug()}",
        "title": error.title,
        "status": status or error.status,
        "detail": error.detail,
        "reason": error.reason,
    }
    for name, value in error.members.items():
        document.setdefault(name, value)
    if error.violations:
        document["errors"] = [
            {"pointer": v.pointer, "message": v.message} for v in error.violations
        ]
    return Response(
        orjson.dumps(document),
        status or error.status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        media_type="application/problem+json",
    )


def install(app: FastAPI, routes: list[BaseRoute]) -> None:
    """Answer every refusal of this application, FastAPI's own too, with a problem."""

    async def refused(request: Request, error: Exception) -> Response:
        match error:
            case errors.Unauthenticated():
                given = "authorization" in request.headers
                challenge = 'Bearer realm="hango"' + (', error="invalid_token"' if given else "")
                return problem(error, www_authenticate=challenge)
            case errors.Unavailable():
                return problem(error, retry_after=_RETRY_AFTER)
            case HangoError():
                return problem(error)
            case RequestValidationError():
                found = violations(error.errors(), skip=_PART)
                return problem(InvalidRequest(violations=found))
            case HTTPException(status_code=405):
                return _not_allowed(request, routes)
            case HTTPException(status_code=404):
                return problem(NotFound())
            case HTTPException() | ClientDisconnect():
                return problem(InvalidRequest())
            case _:
                return problem(errors.Internal("the gateway failed; its log says why"))

    for kind in (HangoError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, refused)


def _not_allowed(request: Request, routes: list[BaseRoute]) -> Response:
    """What may be done instead; to OPTIONS this is the answer."""
    methods = {"OPTIONS"}
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    if "GET" in methods:
        methods.add("HEAD")
    allow = ", ".join(sorted(methods))
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allow})
    return problem(
        InvalidRequest("this method is not offered here"), status=_NOT_ALLOWED, allow=allow
    )


@router.get("/problems/{slug}")
async def about(slug: str) -> Response:
    """A page about a kind of problem."""
    cls = _BY_SLUG.get(slug)
    if cls is None:
        raise NotFound
    facts = f"<p>Status {cls.status}, reason <code>{cls.reason}</code>.</p>"
    return page(cls.title, f"<p>{html.escape(inspect.getdoc(cls) or '')}</p>{facts}")
