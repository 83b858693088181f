"""`docs/guides/security.md` names only tests that exist, and shows the matrix that is tested."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.contract import security_page

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", security_page.PAGE.read_text())))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {n.name for n in tree.body if isinstance(n, kinds)}


def test_the_matrix_is_the_tested_one() -> None:
    assert security_page.page() == security_page.PAGE.read_text()
    assert security_page.table() in security_page.PAGE.read_text()


def test_every_item_of_the_standards_has_a_test() -> None:
    lines = security_page.PAGE.read_text().splitlines()
    items = [line for line in lines if line.startswith(("| OWASP ", "| NIST "))]
    wanted = {f"ASI{n:02}" for n in range(1, 11)} | {"AC-3(2)", "AC-5", "AU-9", "AU-10"}
    assert {line.split()[2] for line in items} == wanted
    assert all("::test_" in line for line in items)
