"""The application: all routers, refusals as problems, the description."""

import asyncio
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from hango_platform.rpc.credentials import CachedCredentials
from hango_platform.telemetry.metrics import Metrics
from pydantic.json_schema import models_json_schema

from hango_gateway.http import (
    agents,
    approvals,
    audit,
    checkpoints,
    directory,
    events,
    problems,
    runs,
    system,
    threads,
)
from hango_gateway.mapping import bodies, models
from hango_gateway.owners import Owners
from hango_gateway.streams import RunStreams, TenantStreams

_ROUTERS = (
    agents.router,
    runs.router,
    checkpoints.router,
    threads.router,
    approvals.router,
    events.router,
    audit.router,
    directory.router,
    system.router,
    problems.router,
)
_READ_BY_HAND = (
    models.Problem,
    bodies.AgentSpec,
    bodies.StartRun,
    bodies.ForkRun,
    bodies.Decide,
    bodies.CreateUser,
    bodies.UpdateUser,
    bodies.CreateApiKey,
    bodies.UpdateTenant,
)


def build(
    owners: Owners, credentials: CachedCredentials, metrics: Metrics, stopping: asyncio.Event
) -> FastAPI:
    """The routes over these owners. `app.state` holds what the routes need."""
    app = FastAPI(
        title="hango",
        version=version("hango"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.owners = owners
    app.state.credentials = credentials
    app.state.metrics = metrics
    app.state.stopping = stopping
    app.state.run_streams = RunStreams(owners, credentials, metrics)
    app.state.tenant_streams = TenantStreams(owners, credentials, metrics)
    for router in _ROUTERS:
        app.include_router(router)
    problems.install(app, [route for router in _ROUTERS for route in router.routes])
    description = _describe(app)
    app.openapi = lambda: description  # type: ignore[method-assign]  # FastAPI's way to set it
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description="Durable human approval for agents' tool calls.",
        routes=app.routes,
    )
    _, by_hand = models_json_schema(
        [(model, "validation") for model in _READ_BY_HAND],
        ref_template="#/components/schemas/{model}",
    )
    document["components"]["schemas"].update(by_hand["$defs"])
    return document
