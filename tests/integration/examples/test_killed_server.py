"""A tool server made with the SDK, killed in mid-call."""

from contextlib import AsyncExitStack
from pathlib import Path

from hango import Hango

from tests.integration.examples.test_examples import entries
from tests.support.backend import NatsServer, PostgresServer
from tests.support.processes import python
from tests.support.scripts import agent, call, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

SLOW = """
import asyncio, json, os
from hango import tool_server
from hango.tool_server import ToolCall, tool

def note(name: str, call: ToolCall) -> None:
    with open(os.environ["LOG"], "a") as log:
        log.write(json.dumps({"tool": name, "key": call.idempotency_key}) + "\\n")

@tool(effect="keyed")
async def keyed(call: ToolCall) -> str:
    note("keyed", call)
    await asyncio.sleep(float(os.environ["PAUSE"]))
    return "done"

@tool
async def once(call: ToolCall) -> str:
    note("once", call)
    await asyncio.sleep(float(os.environ["PAUSE"]))
    return "done"

tool_server.serve(keyed, once, address=os.environ["ADDR"], on_ready=lambda a: print(a, flush=True))
"""


async def test_a_tool_server_that_is_killed_in_mid_call(
    postgres_server: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Case 33, over gRPC: `once` stays unknown, `keyed` is called again with the same key."""
    script, log = tmp_path / "slow.py", tmp_path / "log"
    script.write_text(SLOW)
    env = {"LOG": str(log), "ADDR": "127.0.0.1:0", "PAUSE": "60"}
    async with AsyncExitStack() as resources:
        process, address = await resources.enter_async_context(python(script, **env))
        env |= {"ADDR": address, "PAUSE": "0"}
        servers = tmp_path / "tools.toml"
        servers.write_text(f'[slow]\ntransport = "grpc"\naddress = "{address}"\n')
        stack = await resources.enter_async_context(
            running_stack(postgres_server, nats_server, tool_servers=servers)
        )
        await stack.start_gateway()
        admin = await resources.enter_async_context(Hango(stack.http, stack.users["admin"].key))
        both = [call("c1", "slow__keyed"), call("c2", "slow__once")]
        for tool in both:
            agent_of = await admin.agents.save(agent(turn(tool)))
            run = await admin.runs.start(agent_of.name, "go")

            async def under_way(so_far: int = len(entries(log))) -> bool:
                return len(entries(log)) > so_far

            await eventually(under_way, timeout=20)
            process.kill()
            await process.wait()
            process, _ = await resources.enter_async_context(python(script, **env))
            run = await admin.runs.finished(run.id)
            assert run.state == "succeeded"
            told = [m async for m in admin.runs.messages(run.id) if m.role == "tool"]
            assert ("unknown" in told[0].content) is (tool["id"] == "c2")
            env["PAUSE"] = "60"
            process.kill()
            await process.wait()
            process, _ = await resources.enter_async_context(python(script, **env))
            env["PAUSE"] = "0"
    called = [(e["tool"], e["key"]) for e in entries(log)]
    assert [tool for tool, _ in called] == ["keyed", "keyed", "once"]
    assert called[0] == called[1]
