"""The pictures and the table of `docs/system-architecture.md` are those of the code and the SQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hango_approvals.domain.suspension import TRANSITIONS as CLOSINGS
from hango_runner.domain.run import TRANSITIONS

if TYPE_CHECKING:
    import enum
    from collections.abc import Collection, Mapping

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/system-architecture.md").read_text()
EDGE = re.compile(r"^ +(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)
QUERIES = re.compile(r"`(\w+)/(\w+\.sql)`: ((?:`\w+`(?:, )?)+)")
NOWHERE = "[*]"


def diagram(heading: str) -> list[tuple[str, str, str]]:
    """The arrows of the state diagram below a heading: from, to, by which transitions."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    (picture,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", section, re.DOTALL)
    return EDGE.findall(picture)


def edges(table: Mapping[enum.StrEnum, Collection[enum.StrEnum]]) -> set[tuple[str, str]]:
    return {(str(start), str(end)) for start, ends in table.items() for end in ends}


def table_rows() -> list[list[str]]:
    """The cells of the table of transitions."""
    section = PAGE.split("## Transitions, ")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\| [TS]\d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def names(row: list[str]) -> str:
    """`T4w` of the cell `T4w withdrawn`."""
    return row[0].split(" ", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("heading", "table"),
    [("The life of a run", TRANSITIONS), ("The life of a suspension", CLOSINGS)],
)
def test_a_diagram_is_the_table_of_the_code(
    heading: str, table: Mapping[enum.StrEnum, Collection[enum.StrEnum]]
) -> None:
    drawn = diagram(heading)
    inner = [(a, b) for a, b, _ in drawn if NOWHERE not in (a, b)]
    assert len(inner) == len(set(inner))
    assert set(inner) == edges(table)
    assert {a for a, b, _ in drawn if b == NOWHERE} == {str(s) for s in table if not table[s]}
    assert {s for a, b, _ in drawn for s in (a, b)} - {NOWHERE} == {str(s) for s in table}


@pytest.mark.parametrize("heading", ["The life of a run", "The life of a suspension"])
def test_an_arrow_is_in_the_table_of_transitions(heading: str) -> None:
    """Each arrow names its transitions, and each of these says so in its row."""
    rows = {names(row): row[2] for row in table_rows()}
    for start, end, by in diagram(heading):
        for name in filter(None, by.split(", ")):
            was, _, becomes = rows[name].partition(" → ")
            assert end in becomes.split(", "), name
            assert was in (start.replace(NOWHERE, "new"), "live"), name


def test_a_row_of_the_table_is_an_arrow() -> None:
    """The other way round: a row that changes a state of a run or a suspension is drawn."""
    drawn = [*diagram("The life of a run"), *diagram("The life of a suspension")]
    arrows = {(name, b) for _, b, by in drawn for name in by.split(", ")}
    for row in table_rows():
        _, _, becomes = row[2].partition(" → ")
        if becomes and not row[2].startswith("call "):
            for end in becomes.split(", "):
                assert (names(row), end) in arrows, row[:3]


def test_every_transition_of_the_comments_has_its_row() -> None:
    """A transition that the SQL speaks of and the table does not is missing here."""
    said = set[str]()
    for path in (ROOT / "services").rglob("*.sql"):
        said |= set(re.findall(r"\b(T\d+[a-z]?|S[1-6])\b", path.read_text()))
    rows = {names(row) for row in table_rows()}
    assert said
    assert said <= rows


@pytest.mark.parametrize("row", table_rows(), ids=names)
def test_the_query_of_a_row_exists(row: list[str]) -> None:
    found = QUERIES.fullmatch(row[-1])
    assert found is not None, row
    service, file, queries = found.groups()
    text = (ROOT / f"services/{service}/hango_{service}/postgres" / file).read_text()
    for query in re.findall(r"`(\w+)`", queries):
        assert f"-- name: {query} :" in text
