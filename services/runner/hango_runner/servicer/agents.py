"""`hango.runs.v1.AgentsService`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from hango.runs.v1 import runs_pb2 as pb
from hango.runs.v1 import runs_pb2_grpc
from hango_platform.errors import NotFound
from hango_platform.rpc import paging
from hango_platform.rpc.caller import principal

from hango_runner import mapping

if TYPE_CHECKING:
    from hango_runner.use_cases.agents import Agents


class AgentsServicer(runs_pb2_grpc.AgentsServiceServicer):
    """Agents and the tools they may name."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def SaveAgent(self, request: pb.SaveAgentRequest, context: Any) -> pb.SaveAgentResponse:
        """Save a spec."""
        agent, created = await self._agents.save(request.name, request.spec_json, by=principal())
        return pb.SaveAgentResponse(agent=mapping.agent_message(agent), created=created)

    async def GetAgent(self, request: pb.GetAgentRequest, context: Any) -> pb.GetAgentResponse:
        """Read one."""
        if request.version < 0:
            raise NotFound
        agent = await self._agents.get(request.name, request.version, by=principal())
        return pb.GetAgentResponse(agent=mapping.agent_message(agent))

    async def ListAgents(
        self, request: pb.ListAgentsRequest, context: Any
    ) -> pb.ListAgentsResponse:
        """List them."""
        size = paging.page_size(request.page_size)
        after: Any = paging.from_token(request.page_token, datetime, str)
        found = await self._agents.list_page(after, size + 1, by=principal())
        agents, more = found[:size], found[size:]
        token = paging.to_token(agents[-1].created_at or "", agents[-1].name) if more else ""
        return pb.ListAgentsResponse(
            agents=map(mapping.agent_message, agents), next_page_token=token
        )

    async def DeleteAgent(
        self, request: pb.DeleteAgentRequest, context: Any
    ) -> pb.DeleteAgentResponse:
        """Take one out of use."""
        await self._agents.delete(request.name, by=principal())
        return pb.DeleteAgentResponse()

    async def ListTools(self, request: pb.ListToolsRequest, context: Any) -> pb.ListToolsResponse:
        """What a spec may name."""
        tools = self._agents.tools(by=principal())
        return pb.ListToolsResponse(tools=map(mapping.tool_message, tools))
