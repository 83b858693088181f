"""`docs/reference/acceptance.md` names only tests that exist, and leaves nothing out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/acceptance.md"
DEFAULT_FOLDER = "tests/integration/main_job"
CASES = {*range(1, 18), *range(21, 33)}
NAMED = re.compile(r"([\w/]+\.py)::(\w+)")


def rows() -> list[list[str]]:
    """The cells of every row of every table, without the head."""
    lines = PAGE.read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return [row for row in cells if row[-1] not in ("shown by", "---")]


def named() -> list[tuple[str, str]]:
    """Every test that the page names: its file, from the root, and its function."""
    found = {test for row in rows() for test in NAMED.findall(row[-1])}
    return sorted((f if "/" in f else f"{DEFAULT_FOLDER}/{f}", name) for f, name in found)


@cache
def functions(file: str) -> set[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {n.name for n in tree.body if isinstance(n, kinds) and n.name.startswith("test_")}


@pytest.mark.parametrize(("file", "name"), named())
def test_every_test_named_exists(file: str, name: str) -> None:
    """A row that names a test which is gone shows nothing."""
    assert name in functions(file)


def test_every_row_names_a_test() -> None:
    """A row without a test promises what nobody checks; a word beside the names is a typo."""
    for row in rows():
        assert NAMED.sub("", row[-1]).strip(", ") == "", row
        assert NAMED.search(row[-1]), row


def test_no_case_is_left_out() -> None:
    """Each case that the main job was ordered with has its row, and no row is there twice."""
    cases = [int(row[0]) for row in rows() if row[0].isdigit()]
    assert sorted(cases) == sorted(CASES)
