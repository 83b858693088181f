"""The operator's files among the examples."""

from pathlib import Path

import pytest
from hango_runner.tools.server_file import load

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*/tools.toml")), ids=str)
def test_it_is_valid(example: Path) -> None:
    assert load(example)
