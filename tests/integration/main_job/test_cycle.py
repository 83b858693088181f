"""One cycle: a call stops, a person decides, the run goes on and the tool runs once."""

from typing import Any

from hango.common.v1 import types_pb2

from tests.support.backend import NatsServer, PostgresServer
from tests.support.stack import running_stack


def agent(**more: Any) -> dict[str, Any]:
    return {
        "name": "writer",
        "model": {
            "provider": "scripted",
            "turns": [
                {
                    "tool_calls": [
                        {
                            "id": "c1",
                            "name": "write_file",
                            "arguments": {"path": "/memories/AGENTS.md", "content": "hello"},
                        }
                    ]
                },
                {"text": "done"},
            ],
        },
        **more,
    }


async def test_approve(postgres_server: PostgresServer, nats_server: NatsServer) -> None:
    async with running_stack(postgres_server, nats_server) as stack:
        admin, member = stack.users["admin"], stack.users["member"]
        await admin.save_agent(agent())
        run = await member.start("writer")
        assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
        await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
        run = await member.finished(run.id)
        assert run.state == types_pb2.RUN_STATE_SUCCEEDED
