"""`docs/guides/failure-modes.md` names a test for each failure of the protocol, and points that
exist.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.integration.faults.points import APPROVALS, EXECUTION, EXPIRY, RUNNER

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/failure-modes.md").read_text()
FOLDER = "tests/integration/faults"
NAMED = re.compile(r"([\w/]+\.py)::(\w+)")
# Of protocol section 10, each phrase.
FAILURES = """worker before and after T1b, T2, S1, T2b, T3, T7, the effect, T8, T8b, T9
relay between publish and mark
A inside S2, during COMMIT, after COMMIT before publishing
sweeper in mid-batch
gateway after A committed
two full decides
decide against expire
decide against cancel
cancel before S1
cancel while a tool runs
a worker frozen past its lease
hints repeated inside and outside the dedupe window
two relays
a hint of generation 1 in generation 2
NATS down
NATS restarted with lost acknowledged messages
PostgreSQL restarted immediately
LISTEN connection killed
pool exhausted
a client that cancels in mid-decide
SIGTERM with open streams and running tools
new agent version
tool schema changed or tool gone
migration up and down
undecodable message
a run that kills its worker each time""".splitlines()
CASES = (1, 3, *range(33, 40))


def rows() -> list[tuple[str, str]]:
    """Failure and tests."""
    table = PAGE.rpartition("| failure | shown by |")[2]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line[:1] == "|"]
    return [(first.strip(), last.strip()) for first, last in cells if "---" not in first]


def named() -> list[tuple[str, str]]:
    """Every test that is named: its file, from the root, and its function."""
    found = {test for _, shown in rows() for test in NAMED.findall(shown)}
    return sorted((f if "/" in f else f"{FOLDER}/{f}", name) for f, name in found)


@cache
def functions(file: str) -> set[str]:
    """The tests of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / file).read_text())
    return {n.name for n in tree.body if isinstance(n, kinds)}


@pytest.mark.parametrize(("file", "name"), named())
def test_every_test_named_exists(file: str, name: str) -> None:
    assert name in functions(file)


@pytest.mark.parametrize("failure", FAILURES)
def test_every_failure_of_the_protocol_has_its_test(failure: str) -> None:
    (shown,) = [shown for name, shown in rows() if failure in name]
    assert NAMED.search(shown)


@pytest.mark.parametrize("case", CASES)
def test_every_case_of_faults_has_its_test(case: int) -> None:
    assert any(f"(case {case})" in name for name, _ in rows())


def test_the_points_are_those_of_the_code() -> None:
    """Every point that the code has is broken by a test, and none is named that it has not."""
    sources = [p for room in ("libs", "services") for p in (ROOT / room).rglob("*.py")]
    calls = [
        call
        for path in sources
        for call in re.findall(r"faults\.reach\(([^()]*)\)", path.read_text())
    ]
    reached = {point for call in calls for point in re.findall(r'"((?:before|after)_\w+)"', call)}
    assert reached == {*RUNNER, *EXECUTION, *APPROVALS, *EXPIRY, "after_write"}
