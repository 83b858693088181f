"""Links lead somewhere, the index names every page, and variables that are named exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tools import reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"\bHANGO_[A-Z][A-Z0-9_]*[A-Z0-9]\b")
# Read by the command or by tests, not by a service; configuration.md says what they are.
OTHERS = {
    "HANGO_URL",
    "HANGO_API_KEY",
    "HANGO_FAULT",
    "HANGO_MODEL_EXAMPLES",
    "HANGO_TEST_NATS_URL",
    "HANGO_TEST_POSTGRES_DSN",
}
PAGES = sorted(
    [
        *DOCS.rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("services/*/README.md"),
        *ROOT.glob("examples/*/README.md"),
    ]
)


def links(page: Path) -> list[str]:
    """What a page links to inside the checkout."""
    found = LINK.findall(FENCE.sub("", page.read_text()))
    return [target for target in found if not re.match(r"\w+:", target)]


@cache
def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings make, as the usual renderers name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def named(page: Path) -> set[str]:
    return set(NAME.findall(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if fragment:
            assert fragment in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_variable_exists(page: Path) -> None:
    known = {variable.name for variable in reference.variables()} | OTHERS
    assert named(page) <= known


def test_the_index_names_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    wanted = {*DOCS.rglob("*.md"), *DOCS.rglob("*.yaml"), *DOCS.rglob("*.pml")} - {index}
    assert wanted <= linked
    assert set(ROOT.glob("services/*/README.md")) <= linked


def test_the_variables_of_the_command_and_of_tests_are_read_somewhere() -> None:
    """One that nobody reads any more must not stay in the pages."""
    code = "".join(p.read_text() for room in ("libs", "tests") for p in (ROOT / room).rglob("*.py"))
    for name in OTHERS:
        assert code.count(f'"{name}') > 1, name
    assert named(DOCS / "reference/configuration.md") >= OTHERS


def test_links_and_variables_are_found_where_there_are_some() -> None:
    assert len(links(DOCS / "index.md")) > 20
    assert "HANGO_INTERNAL_KEY" in named(DOCS / "guides/operators.md")
    assert "the-life-of-a-run" in anchors(DOCS / "system-architecture.md")
