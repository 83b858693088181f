"""Health, metrics, and the API's description."""

import html
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hango_gateway.http.answers import Json
from hango_gateway.http.html import page
from hango_gateway.mapping import models

if TYPE_CHECKING:
    from hango_platform.telemetry.metrics import Metrics

router = APIRouter(tags=["system"])


@router.get("/healthz", response_model=models.Health)
async def healthz() -> Response:
    """The process answers."""
    return Json({"status": "ok"})


@router.get("/readyz", response_model=models.Health, responses={503: {"model": models.Health}})
async def readyz(request: Request) -> Response:
    """The gateway takes requests. It owns nothing, so it depends on nothing."""
    if request.app.state.stopping.is_set():
        return Json({"status": "stopping"}, 503)
    return Json({"status": "ok"})


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    registered: Metrics = request.app.state.metrics
    return Response(generate_latest(registered.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The API's description, OpenAPI 3.1."""
    return Json(request.app.openapi())


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The same for people."""
    rows = "".join(
        f"<tr><td><code>{method.upper()}</code></td><td><code>{html.escape(path)}</code></td>"
        f"<td>{html.escape(operation.get('description', ''))}</td></tr>"
        for path, operations in request.app.openapi()["paths"].items()
        for method, operation in operations.items()
    )
    return page(
        "The API of hango",
        '<p>In full: <a href="/openapi.json">OpenAPI 3.1</a>.</p>'
        f"<table><tr><th>method</th><th>path</th><th></th></tr>{rows}</table>",
    )
