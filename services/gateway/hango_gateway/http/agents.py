"""Agents, and the tools they may name."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from hango.runs.v1 import runs_pb2 as pb

from hango_gateway.auth import Admin, User
from hango_gateway.http import answers
from hango_gateway.http.answers import AgentName, Json, Owners, PageSize, PageToken
from hango_gateway.mapping import agents, bodies, models

router = APIRouter(prefix="/v1", tags=["agents"])

_LATEST_POSSIBLE = 2**31 - 1
_CREATED = {"description": "The first version under this name.", "model": models.Agent}


@router.put(
    "/agents/{name}",
    response_model=models.Agent,
    **answers.described(400, 403, 409, body=bodies.AgentSpec, also={201: _CREATED}),
)
async def save_agent(request: Request, owners: Owners, user: Admin, name: AgentName) -> Response:
    """Save an agent: 201 where it is new. Another spec is a new version; the same one is not."""
    asked = pb.SaveAgentRequest(name=name, spec_json=await answers.body_of(request))
    answer = await owners.runner.write(owners.agents.SaveAgent, asked, user)
    return Json(agents.agent(answer.agent), 201 if answer.created else 200)


@router.get("/agents", response_model=models.Page[models.Agent], **answers.described(400))
async def list_agents(
    owners: Owners, user: User, page_size: PageSize = 50, page_token: PageToken = ""
) -> Response:
    """The newest version of each agent, newest first."""
    asked = pb.ListAgentsRequest(page_size=page_size, page_token=page_token)
    answer = await owners.runner.read(owners.agents.ListAgents, asked, user)
    return answers.page(map(agents.agent, answer.agents), answer.next_page_token)


@router.get("/agents/{name}", response_model=models.Agent, **answers.described(400, 404))
async def get_agent(
    owners: Owners,
    user: User,
    name: AgentName,
    version: Annotated[
        int | None, Query(ge=1, le=_LATEST_POSSIBLE, description="The newest, if left out.")
    ] = None,
) -> Response:
    """Read an agent."""
    asked = pb.GetAgentRequest(name=name, version=version or 0)
    answer = await owners.runner.read(owners.agents.GetAgent, asked, user)
    return Json(agents.agent(answer.agent))


@router.delete("/agents/{name}", status_code=204, **answers.described(400, 403, 404))
async def delete_agent(owners: Owners, user: Admin, name: AgentName) -> Response:
    """Take an agent out of use. Its runs go on with the version they began with."""
    await owners.runner.write(owners.agents.DeleteAgent, pb.DeleteAgentRequest(name=name), user)
    return Response(status_code=204)


@router.get("/tools", response_model=models.Page[models.Tool], **answers.described())
async def list_tools(owners: Owners, user: User) -> Response:
    """The tools that an agent may name."""
    answer = await owners.runner.read(owners.agents.ListTools, pb.ListToolsRequest(), user)
    return answers.page(map(agents.tool, answer.tools), "")
