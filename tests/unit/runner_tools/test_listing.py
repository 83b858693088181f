"""What becomes of the tools that a server offers (case 40)."""

import time
from pathlib import Path
from typing import Any

import pytest
from hango_runner.agent.tools import Effect
from hango_runner.tools.listing import MAX_TOOLS, listed_tools
from hango_runner.tools.server_file import ServerConfig, Transport

CONFIG = ServerConfig(
    "s", Transport.MCP_STDIO, Path("/"), ("x",), effects={"good": Effect.READ, "bad": Effect.KEYED}
)
GOOD = {"name": "good", "description": "Fine.", "inputSchema": {"type": "object"}}


def doubling() -> dict[str, Any]:
    """A schema of a few hundred bytes that a naive validator unfolds into millions."""
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(24)}
    return {"$ref": "#/$defs/l0", "$defs": {**levels, "l24": {"type": "object"}}}


def test_a_good_tool() -> None:
    found = listed_tools(CONFIG, [GOOD])
    tool = found["s__good"]
    assert tool.name == "good"
    assert tool.schema is not None
    assert tool.spec.effect is Effect.READ
    assert tool.spec.source == "s"
    assert tool.spec.description == "Fine."
    assert tool.spec.unavailable == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}},
        doubling(),
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"type": "no such type"},
        {"type": "object", "description": "x" * 100_000},
        {"type": "object", "title": "a\0b"},
        "text",
        None,
        True,
    ],
)
def test_a_broken_or_hostile_schema_drops_that_tool_alone(schema: Any) -> None:
    began = time.perf_counter()
    found = listed_tools(CONFIG, [{"name": "bad", "inputSchema": schema}, GOOD])
    assert time.perf_counter() - began < 0.5
    assert found["s__bad"].schema is None
    assert "the schema" in found["s__bad"].spec.unavailable
    assert found["s__bad"].spec.parameters == {}
    assert found["s__bad"].spec.effect is Effect.KEYED
    assert found["s__good"].schema is not None


@pytest.mark.parametrize("name", ["", "with space", "dot.ted", "x" * 70, "új", "a\nb", "\ud800"])
def test_a_name_that_no_model_can_call(name: str) -> None:
    ((shown, tool),) = listed_tools(CONFIG, [{**GOOD, "name": name}]).items()
    assert "name" in tool.spec.unavailable
    assert tool.schema is None
    assert shown.isascii()
    assert shown.isprintable()


def test_what_is_no_tool_is_left_out() -> None:
    assert set(listed_tools(CONFIG, [None, 7, {}, {"name": 7}, [], GOOD])) == {"s__good"}


def test_the_first_of_a_name_stays() -> None:
    found = listed_tools(CONFIG, [GOOD, {**GOOD, "description": "Other."}])
    assert found["s__good"].spec.description == "Fine."


def test_there_are_bounds() -> None:
    many = [{**GOOD, "name": f"t{n}", "description": "d" * 100_000} for n in range(MAX_TOOLS + 5)]
    found = listed_tools(CONFIG, many)
    assert len(found) == MAX_TOOLS
    assert len(found["s__t0"].spec.description) < 10_000
