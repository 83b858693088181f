"""From functions to tools."""

import asyncio
import json
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hango.sdk.tools import NeedsInput, ToolCall, tool
from hango_policy.schemas import compile_schema
from pydantic import BaseModel, Field, ValidationError


class Item(BaseModel):
    sku: str
    amount: Annotated[int, Field(gt=0)] = 1


def call(*inputs: Any) -> ToolCall:
    return ToolCall("k", "t", "a", "r", "c", "1", inputs)


def test_the_runner_takes_its_schemas() -> None:
    @tool
    def buy(items: list[Item], json: str, call: ToolCall, copy: Decimal | None = None) -> None:
        """Buy."""

    schema = compile_schema(buy.parameters)
    assert schema.violations({"items": [{"sku": "a"}], "json": "x"}) == []
    assert schema.violations({"items": [{"sku": "a", "amount": 0}], "json": "x"})
    assert schema.violations({"items": [], "json": "x", "call": {}})
    raw = b'{"items": [{"sku": "a"}], "json": "x", "copy": 0.12345678901234567890123}'
    here = call()
    assert buy.bind(raw, here) == {
        "items": [Item(sku="a")],
        "json": "x",
        "call": here,
        "copy": Decimal("0.12345678901234567890123"),
    }
    with pytest.raises(ValidationError):
        buy.bind(b'{"items": [], "json": "x", "more": 1}', here)


def test_what_cannot_be_a_tool() -> None:
    with pytest.raises(TypeError, match="a has no type"):

        @tool
        def untyped(a) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match="cannot be given by name"):

        @tool
        def positional(*a: int) -> None: ...

    with pytest.raises(ValueError, match="no name of a tool"):
        tool(name="sp ace")(lambda: None)


def test_questions_in_order() -> None:
    asked = call("first")
    assert asked.ask({"q": 1}) == "first"
    with pytest.raises(NeedsInput) as caught:
        asked.ask({"q": 2}, {"type": "string"})
    assert (caught.value.payload, caught.value.schema) == ({"q": 2}, {"type": "string"})
    assert not isinstance(caught.value, Exception)


async def test_a_tool_stays_a_function() -> None:
    @tool
    async def twice(n: int) -> int:
        """Twice."""
        return 2 * n

    assert await twice(2) == 4
    assert asyncio.iscoroutinefunction(twice.function)
    assert json.loads(json.dumps(twice.parameters))["required"] == ["n"]
