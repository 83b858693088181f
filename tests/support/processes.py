"""Programs that tests start and kill."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def python(script: Path, **env: str) -> AsyncIterator[tuple[Process, str]]:
    """A script and the first line that it prints; killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        env={"PATH": os.environ["PATH"], **env},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            first = (await process.stdout.readline()).decode().strip()
        yield process, first
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
