"""`python -m tests.chaos --minutes 5`: load through REST on a stack of its own while things break,
then every promise is checked and the figures are printed. Exits with 1 where one is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos import figures, storm

MEMORY = Path("/dev/shm")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--people", type=int, default=24, help="how many act at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the dice; printed if left out")
    parser.add_argument("--figures", action="store_true", help="measure each figure alone instead")
    parser.add_argument("--disk", action="store_true", help="data on disk, not in memory")
    parser.add_argument("--calm", action="store_true", help="the load alone, nothing breaks")
    options = parser.parse_args()
    # Processes are ended here, never the machine: memory is as good as a disk, and faster.
    place = None if options.disk or not MEMORY.is_dir() else MEMORY
    with tempfile.TemporaryDirectory(prefix="hango-chaos-", dir=place) as folder:
        if options.figures:
            found = asyncio.run(figures.measure(Path(folder), _tell))
            return int(any(f.value > f.at_most for f in found))
        report = asyncio.run(
            storm.rage(
                Path(folder),
                seconds=60 * options.minutes,
                people=options.people,
                seed=options.seed,
                calm=options.calm,
                tell=_tell,
            )
        )
    sys.stdout.write(report.text() + "\n")
    return 0 if report.verdict.ok else 1


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
