"""A minute of chaos: `make chaos` runs as long as it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos import storm
from tests.e2e.conftest import fresh_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is such a thing: no machine dies here."""
    with fresh_folder() as made:
        yield made


@pytest.mark.timeout(900)
async def test_a_minute_of_chaos(folder: Path) -> None:
    report = await storm.rage(folder, seconds=60, people=12)
    text = report.text()
    assert report.verdict.ok, text
    assert sum(report.harm.values()) >= 5, text
    assert report.verdict.counts["runs"] >= 50, text
    assert report.verdict.counts["decides acknowledged"] >= 50, text
