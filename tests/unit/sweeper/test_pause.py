"""How long the sweeper waits between rounds."""

from __future__ import annotations

import pytest
from hango_sweeper.sweeps import pause


def test_a_round_that_went_well_is_followed_by_the_interval() -> None:
    assert pause(3600, 0) == 3600


@pytest.mark.parametrize(
    ("failures", "at_least", "below"),
    [(1, 0.25, 0.75), (2, 0.5, 1.5), (4, 2.5, 7.5), (100_000, 2.5, 7.5)],
)
def test_a_failed_one_is_tried_again_soon_whatever_the_interval(
    failures: int, at_least: float, below: float
) -> None:
    for interval in (0.01, 3600):
        assert at_least <= pause(interval, failures) < below
