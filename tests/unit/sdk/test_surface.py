"""What importing the SDK costs, what it offers, and that its examples hold."""

import doctest
import subprocess
import sys
from pathlib import Path

import hango
import pytest
from hango.common.v1 import errors_pb2
from hango.sdk import client, errors, tool_server, tools, values, wire

ROOT = Path(__file__).parents[3]
SERVER_PACKAGES = (
    "hango_platform", "hango_policy", "hango_runner", "hango_gateway", "hango_approvals",
    "fastapi", "uvicorn", "asyncpg", "nats", "mcp", "pydantic_ai", "openai", "anthropic",
)  # fmt: skip


@pytest.mark.parametrize("module", [client, errors, tool_server, tools, values, wire])
def test_its_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.failed == 0


def test_the_examples_are_there() -> None:
    found = [doctest.DocTestFinder().find(m) for m in (errors, tools, values)]
    assert all(any(test.examples for test in tests) for tests in found)


@pytest.mark.parametrize("statement", ["from hango import Hango", "import hango.tool_server"])
def test_it_loads_no_server(statement: str) -> None:
    script = f"import sys; {statement}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [m for m in loaded if m.partition(".")[0] in SERVER_PACKAGES]


def test_what_is_exported() -> None:
    assert hango.Hango is client.Hango
    assert hango.tool_server.serve is tool_server.serve
    with pytest.raises(AttributeError, match="nonsense"):
        hango.nonsense  # noqa: B018


def test_every_reason_has_its_exception() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in errors_pb2.ErrorReason.keys()}  # noqa: SIM118
    assert set(errors.BY_REASON) == reasons - {"UNSPECIFIED"}
