"""The shape of the code base: no module so long that nobody reads it to the end."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 500
ROOMS = ("libs", "services", "tests", "bench", "tools")
GENERATED = "_pb2"


def modules() -> list[Path]:
    found = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return sorted(p for p in found if GENERATED not in p.stem and "node_modules" not in p.parts)


def test_the_rooms_are_where_this_looks() -> None:
    assert ROOT / "libs/hango_cli/embedded/postgres.py" in modules()


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_too_long(module: Path) -> None:
    lines = len(module.read_text().splitlines())
    assert lines <= LONGEST, f"{lines} lines: find the seam and split it"
