"""A `hango up` of the benchmark's own, with durable settings, and its users over gRPC."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_UP_WITHIN = 60.0


@contextmanager
def running(*arguments: str) -> Iterator[dict[str, Any]]:
    """Start everything in a folder that goes away afterwards; the ready file's content, and
    `data`, the data folder.
    """
    with tempfile.TemporaryDirectory(prefix="hango-bench-") as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "hango_cli", "up", "--data", f"{folder}/data"]
        command += ["--http", "127.0.0.1:0", "--ready-file", str(ready), *arguments]
        with (Path(folder) / "up.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + _UP_WITHIN
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    text = (Path(folder) / "up.log").read_text()[-2000:]
                    raise RuntimeError(f"hango up did not come up: {text}")
                time.sleep(0.05)
            yield {**json.loads(ready.read_text()), "data": f"{folder}/data"}
        finally:
            process.terminate()
            process.wait(20)
