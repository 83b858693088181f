"""Tool servers that are broken, hostile or away."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hango_platform.lifecycle import Tasks
from hango_runner.agent.tools import ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools import mcp_server, server
from hango_runner.tools.catalog import Catalog
from hango_runner.tools.server_file import ServerConfig, Transport

from tests.support.tool_servers import Running, bank_config, odd_config
from tests.support.waiting import eventually

Start = Callable[[ServerConfig], Awaitable[Running]]
ANY = {"type": "object"}


def tool(name: str, schema: Any = ANY) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema}


@pytest.fixture
async def odd(start: Start) -> Running:
    running = await start(odd_config(tool("echo")))
    await running.connected()
    return running


async def test_nothing_of_our_environment_is_passed_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANGO_INTERNAL_KEY", "secret")
    monkeypatch.setenv("HOME", "/secret")
    odd = await start(odd_config(tool("environment")))
    variables = json.loads((await odd.call("environment")).text)
    # LC_CTYPE is the Python interpreter's own, in a locale without UTF-8 (PEP 538).
    assert set(variables) - {"LC_CTYPE"} == {"PATH", "ODD_TOOLS", "ODD_START"}
    assert "secret" not in str(variables)


async def test_bad_schemas_drop_their_tool_alone(start: Start) -> None:
    """Case 40."""
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(24)}
    doubling = {"$ref": "#/$defs/l0", "$defs": {**levels, "l24": {}}}
    odd = await start(
        odd_config(
            tool("echo"),
            tool("doubling", doubling),
            tool("remote", {"$ref": "http://127.0.0.1:9/x"}),
            tool("slow", {"properties": {"a": {"pattern": "^(a+)+$"}}}),
            tool("none", None),
            {"description": "no name"},
            "no tool",
        )
    )
    await odd.connected()
    usable = {name for name, found in odd.server.tools.items() if found.schema is not None}
    assert usable == {"odd__echo"}
    dropped = {name for name, found in odd.server.tools.items() if found.spec.unavailable}
    assert dropped == {"odd__doubling", "odd__remote", "odd__slow", "odd__none"}


async def test_answers_of_people_travel_along(odd: Running) -> None:
    result = await odd.call_raw("echo", b'{"n": null}', inputs=(b'"yes"', b"9007199254740993"))
    params = json.loads(result.text)  # type: ignore[union-attr]  # else the test fails as well
    assert params["arguments"] == {"n": None}
    assert params["_meta"]["hango/inputs"] == ["yes", 9007199254740993]
    assert params["_meta"]["hango/idempotency-key"] == "key-1"


async def test_calls_run_side_by_side(odd: Running) -> None:
    slow = asyncio.create_task(odd.call("later", seconds=0.3))
    fast = await odd.call("later", seconds=0)
    assert fast.text == "after 0"
    assert not slow.done()
    assert (await slow).text == "after 0.3"


@pytest.mark.parametrize("code", [-32600, -32601, -32602])
async def test_a_refused_request_was_not_called(odd: Running, code: int) -> None:
    with pytest.raises(ToolNotCalled, match="refused the call: no"):
        await odd.call("error", code=code)


@pytest.mark.parametrize("code", [-32603, 0, 7, -32000])
async def test_any_other_error_leaves_the_outcome_unknown(odd: Running, code: int) -> None:
    with pytest.raises(ToolOutcomeUnknown):
        await odd.call("error", code=code)


@pytest.mark.parametrize("behaviour", ["garbage", "flood", "exit"])
async def test_no_good_answer_leaves_the_outcome_unknown(odd: Running, behaviour: str) -> None:
    with pytest.raises(ToolOutcomeUnknown):
        await odd.call(behaviour)
    assert "hango/run-id" in (await odd.call("echo")).text


async def test_silence_ends_by_the_callers_timeout(odd: Running) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await odd.call("silence")
    assert "hango/run-id" in (await odd.call("echo")).text


async def test_a_changed_list_is_read_again(odd: Running) -> None:
    await odd.call("grow")

    async def grown() -> bool:
        return "odd__grown" in odd.server.tools

    await eventually(grown)


async def test_a_greeting_on_stdout_is_skipped(start: Start) -> None:
    odd = await start(odd_config(tool("echo"), start="chatty"))
    assert "hango/run-id" in (await odd.call("echo")).text


async def test_a_server_that_does_not_start(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "RECONNECT_WAIT", 0.2)
    with caplog.at_level(logging.WARNING):
        odd = await start(odd_config(tool("echo"), start="exit"))
        with pytest.raises(ToolNotCalled, match="cannot be reached"):
            await odd.call("echo")

        async def told() -> bool:
            return any("the reason on stderr" in r.__dict__["stderr"] for r in caplog.records)

        await eventually(told)
    assert odd.server.trouble == "the server ended while it started"


async def test_a_server_that_says_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "START_TIMEOUT", 0.3)
    odd = await start(odd_config(tool("echo"), start="mute"))

    async def gave_up() -> bool:
        return "did not answer" in odd.server.trouble

    await eventually(gave_up)


async def test_a_command_that_is_not_there(start: Start, tmp_path: Path) -> None:
    lost = ServerConfig("lost", Transport.MCP_STDIO, tmp_path, ("no-such-program-x",))
    running = await start(lost)

    async def gave_up() -> bool:
        return "cannot be started" in running.server.trouble

    await eventually(gave_up)


@pytest.fixture
async def tasks() -> Any:
    tasks = Tasks()
    yield tasks
    await tasks.stop()
    assert not tasks.failed.done()


async def test_the_catalog_waits_for_no_server(ledger: Path, tasks: Tasks) -> None:
    mute = odd_config(start="mute")
    later = ServerConfig(
        "later", Transport.GRPC, Path("/"), address="127.0.0.1:1", tenants=("demo",)
    )
    catalog = Catalog([mute, bank_config(ledger), later])
    catalog.start(tasks)
    specs = catalog.specs("demo")
    assert specs["odd__*"].unavailable
    assert "not reached yet" in specs["later__*"].unavailable
    assert "later__*" not in catalog.specs("demo-b")
    assert specs["write_file"].unavailable == specs["ask_human"].unavailable == ""

    async def bank_came() -> bool:
        return "bank__pay" in catalog.specs("demo")

    await eventually(bank_came)
    assert "bank__*" not in catalog.specs("demo")
    await catalog.stop()


async def test_the_catalog_finds_what_a_name_stands_for(ledger: Path, tasks: Tasks) -> None:
    catalog = Catalog([bank_config(ledger)])
    catalog.start(tasks)

    async def bank_came() -> bool:
        return catalog.remote("bank__pay") is not None

    await eventually(bank_came)
    found = catalog.remote("bank__pay")
    assert found is not None
    assert found[1:] == ("pay", None)
    assert catalog.schema("bank__pay") is not None
    assert catalog.transactional("bank__pay") is None
    assert catalog.transactional("ls") is not None
    assert catalog.schema("ls") is not None
    assert catalog.remote("ls") is None
    for name in ("bank__nope", "nope__pay", "bank", "bank__*", "", "__"):
        assert catalog.remote(name) is None
        assert catalog.schema(name) is None
        assert catalog.transactional(name) is None
    await catalog.stop()


async def test_settled_means_that_healthy_servers_are_there(ledger: Path, tasks: Tasks) -> None:
    lost = ServerConfig("lost", Transport.MCP_STDIO, ledger.parent, ("no-such-program-x",))
    catalog = Catalog([bank_config(ledger), lost])
    catalog.start(tasks)
    await catalog.settled()
    assert catalog.schema("bank__pay") is not None
    assert "cannot be started" in catalog.specs("demo")["lost__*"].unavailable
    await catalog.stop()


async def test_a_mute_server_holds_nobody_up_for_long(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hango_runner.tools.catalog.SETTLE_WITHIN", 0.2)
    catalog = Catalog([odd_config(start="mute")])
    catalog.start(tasks)
    async with asyncio.timeout(2):
        await catalog.settled()
        await catalog.settled()
    assert catalog.specs("demo")["odd__*"].unavailable
    await catalog.stop()
