"""Lists are keyset-paged: no row twice, none left out, whatever is added meanwhile."""

from typing import Any

import pytest
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_platform.errors import InvalidRequest

from tests.support.backend import NatsServer, PostgresServer
from tests.support.stack import Client, running_stack


def _agent(name: str) -> dict[str, Any]:
    return {"name": name, "model": {"provider": "scripted", "turns": []}}


async def _pages(client: Client, method: Any, request: Any, field: str) -> list[Any]:
    found: list[Any] = []
    while True:
        answer = await client.call(method, request)
        found += getattr(answer, field)
        if not answer.next_page_token:
            return found
        assert len(getattr(answer, field)) == request.page_size
        request.page_token = answer.next_page_token


async def test_runs_agents_and_messages_by_pages(
    postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    """Newest first for runs and agents, oldest first for messages."""
    async with running_stack(postgres_server, nats_server) as stack:
        admin = stack.users["admin"]
        names = [f"agent-{n}" for n in range(5)]
        for name in names:
            await admin.save_agent(_agent(name))
        started = [(await admin.start(name)).id for name in names]
        runs, agents = rgrpc.RunsServiceStub(admin.runner), rgrpc.AgentsServiceStub(admin.runner)
        found = await _pages(admin, runs.ListRuns, rpb.ListRunsRequest(page_size=2), "runs")
        assert [r.id for r in found] == started[::-1]
        found = await _pages(admin, agents.ListAgents, rpb.ListAgentsRequest(page_size=2), "agents")
        assert [a.name for a in found] == names[::-1]
        request = rpb.ListMessagesRequest(run_id=started[0], page_size=1)
        found = await _pages(admin, runs.ListMessages, request, "messages")
        assert [(m.seq, m.role) for m in found] == [(1, "user"), (2, "assistant")]


@pytest.mark.parametrize("token", ["x", "bm90IGpzb24", "WzFd", "WyJhIiwiYiJd", "e30"])
async def test_a_bad_token_is_refused(
    postgres_server: PostgresServer, nats_server: NatsServer, token: str
) -> None:
    """400 with a pointer, never 500."""
    async with running_stack(postgres_server, nats_server) as stack:
        admin = stack.users["admin"]
        runs = rgrpc.RunsServiceStub(admin.runner)
        with pytest.raises(InvalidRequest) as refused:
            await admin.call(runs.ListRuns, rpb.ListRunsRequest(page_token=token))
        assert [v.pointer for v in refused.value.violations] == ["/page_token"]
