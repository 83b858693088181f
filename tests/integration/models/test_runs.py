"""Runs on models of an endpoint, through the whole of hango."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hango import Hango
from hango_platform import ids
from hango_runner.models import asking

from tests.support.model_servers import Fail, ModelServer, Say, model_server
from tests.support.stack import running_stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

ENDPOINTS = """
[local]
base_url = "http://{address}/v1"

[claude]
protocol = "anthropic"
base_url = "http://{address}"
models = ["c"]
"""


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as made:
        yield made


@pytest.fixture(scope="module")
async def stack(
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    server: ModelServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Stack]:
    endpoints = tmp_path_factory.mktemp("models") / "endpoints.toml"
    endpoints.write_text(ENDPOINTS.format(address=server.address))
    async with AsyncExitStack() as resources:
        running = running_stack(
            postgres_server,
            nats_server,
            runner={"model_endpoints": endpoints, "lease_ttl": "1s"},
        )
        stack = await resources.enter_async_context(running)
        await stack.start_gateway()
        yield stack


@pytest.fixture
async def admin(stack: Stack) -> AsyncIterator[Hango]:
    async with Hango(stack.http, stack.users["admin"].key) as client:
        yield client


async def agent(admin: Hango, model: str, **more: Any) -> str:
    spec = {"name": f"a-{ids.new_id()}", "model": model, "tools": ["*"], **more}
    return (await admin.agents.save(spec)).name


@pytest.mark.parametrize("model", ["local:m", "claude:c"])
async def test_a_gated_call_of_a_real_model(admin: Hango, server: ModelServer, model: str) -> None:
    """The exact text that the model wrote is what is shown, decided on and written."""
    text = '{ "path":"/memories/n", "content":"9007199254740993" }'
    server.script = [
        Say(["I write."], [("id:1", "write_file", [text[:9], text[9:]])], tokens=(100, 10)),
        Say(["Written."], tokens=(200, 5)),
    ]
    run = await admin.runs.start(await agent(admin, model), "Write", wait=30)
    (pending,) = await admin.runs.approvals(run.id)
    assert (pending.arguments_raw, pending.tool_call_id) == (text, "id:1")
    await admin.runs.decide(run.id, pending.approve())
    run = await admin.runs.finished(run.id)
    assert (run.state, run.output) == ("succeeded", "Written.")
    assert (run.usage.model_calls, run.usage.input_tokens, run.usage.output_tokens) == (2, 300, 15)
    assert server.problems == []


async def test_an_answer_is_seen_while_it_grows(admin: Hango, server: ModelServer) -> None:
    words = [f"word{n} " for n in range(50)]
    server.script = [Say(words, pause=0.3, rhythm=0.02)]
    run = await admin.runs.start(await agent(admin, "local:m"), "Talk")
    events = [event async for event in admin.runs.events(run.id)]
    deltas = [event for event in events if event.type == "model.delta"]
    assert len(deltas) > 3
    assert {(d.id, d.data["run_id"], d.data["attempt"]) for d in deltas} == {(None, run.id, 1)}
    said = "".join(d.data["text"] for d in deltas)
    assert said
    assert "".join(words).startswith(said)
    last = next(e for e in events if e.type == "message.created" and e.data["role"] == "assistant")
    assert events.index(deltas[-1]) < events.index(last)
    again = [event async for event in admin.runs.events(run.id, after=0)]
    assert [event.type for event in again if event.type == "model.delta"] == []


async def test_a_lease_is_renewed_while_a_model_is_waited_for(
    admin: Hango, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.5)
    server.script = [Fail(503), Say(["late"], pause=1.5)]
    before = len(server.asked)
    run = await admin.runs.start(await agent(admin, "local:m"), "Wait", wait=30)
    assert (run.state, run.output) == ("succeeded", "late")
    assert len(server.asked) - before == 2
    assert run.usage.model_calls == 1


async def test_a_model_that_does_not_answer(
    admin: Hango, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.001)
    server.script = [Fail(500)] * asking.ATTEMPTS
    run = await admin.runs.start(await agent(admin, "local:m"), "Fail", wait=30)
    assert run.failure is not None
    assert run.failure.reason == "model_error"
    assert run.failure.message == "the model did not answer: server (status 500), after 5 attempts"
    run = await admin.runs.start(await agent(admin, "claude:other"), "Fail", wait=30)
    assert run.failure is not None
    assert (run.failure.reason, "no provider" in str(run.failure.message)) == ("model_error", True)


async def test_models_are_waited_for_side_by_side(admin: Hango, server: ModelServer) -> None:
    name = await agent(admin, "local:m")
    server.script = [Say(["done"], pause=0.5) for _ in range(16)]
    started = asyncio.get_running_loop().time()
    runs = await asyncio.gather(*[admin.runs.start(name, "x", wait=30) for _ in range(16)])
    assert {run.state for run in runs} == {"succeeded"}
    assert asyncio.get_running_loop().time() - started < 16 * 0.5


async def test_tokens_are_a_limit(admin: Hango, server: ModelServer) -> None:
    look = ("c1", "ls", ['{"path": "/"}'])
    server.script = [Say(calls=[look], tokens=(60, 20)), Say(calls=[look], tokens=(100, 20))]
    name = await agent(admin, "local:m", limits={"max_tokens": 200})
    run = await admin.runs.start(name, "Look", wait=30)
    assert run.failure is not None
    assert run.failure.reason == "limit_exceeded"
    assert run.failure.message == "the limit max_tokens of 200 was reached"
    assert (run.usage.input_tokens, run.usage.output_tokens) == (160, 40)


async def test_what_an_agent_keeps_is_shown_to_its_next_run(
    admin: Hango, server: ModelServer
) -> None:
    def write(path: str, content: str) -> tuple[str, str, list[str]]:
        return (path, "write_file", [json.dumps({"path": path, "content": content})])

    name = await agent(admin, "local:m", interrupt_on={"write_file": False})
    skill = "---\nname: minutes\ndescription: How we write minutes.\n---\nDecisions first."
    server.script = [
        Say(
            calls=[
                write("/memories/AGENTS.md", "In German."),
                write("/skills/minutes/SKILL.md", skill),
                write("/skills/minutes/more/SKILL.md", "no skill"),
                write("/drafts/AGENTS.md", "no note"),
            ]
        ),
        Say(["kept"]),
    ]
    assert (await admin.runs.start(name, "Keep", wait=30)).output == "kept"
    assert (await admin.runs.start(name, "Next", wait=30)).state == "succeeded"
    told = server.asked[-1]["messages"][0]["content"]
    assert "In German." in told
    assert told.endswith("- minutes (/skills/minutes/SKILL.md): How we write minutes.")
