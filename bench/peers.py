"""The same cycle on other systems, by the comparison kept beside the project, if it is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "bench" / "peers"


class Peers:
    """A copy of the comparison in a folder of its own: it makes its environment beside itself."""

    def __init__(self, work: Path) -> None:
        self._work = work / "peers"
        shutil.copytree(FOLDER, self._work)
        for path in (self._work, *self._work.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def measure(self, peers: str, concurrencies: list[int], seconds: float) -> list[dict[str, Any]]:
        """One repeat of the throughput phase: cells with peer, c, rate."""
        command = [sys.executable, str(self._work / "run.py"), "--peers", peers, "--reps", "1"]
        command += ["--phases", "throughput", "--two", "0", "--seconds", str(seconds)]
        command += ["--concurrency", ",".join(map(str, concurrencies)), "--out", "cycle"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._work)
        found: dict[str, Any] = json.loads((self._work / "cycle.json").read_text())
        if found["errors"]:
            raise RuntimeError(found["errors"])
        cells: list[dict[str, Any]] = found["throughput"]
        return cells
