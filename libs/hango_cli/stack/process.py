"""One service as a child process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hango_cli.embedded.spawn import Command, spawn
from hango_cli.stack.errors import StackError

if TYPE_CHECKING:
    import subprocess

_START_TIMEOUT = 30.0
_POLL = 0.05
_LAST_LINES = 5


class ServiceProcess:
    """`python -m hango_NAME`, which ends when we do, `kill -9` included."""

    def __init__(self, name: str, environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the last process; 0 before the first."""
        return self._process.pid if self._process else 0

    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it; returns once it is bound to its addresses. Raises StackError."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        read, write = os.pipe2(os.O_CLOEXEC)
        try:
            self._process = spawn(
                Command(
                    [sys.executable, "-m", f"hango_{self.name}"],
                    cwd=Path.cwd(),
                    log=self.log,
                    on_parent_death=signal.SIGKILL,  # a crash of ours is one of its: it is ready
                    keep_open=[write],
                    environment={**self._environment, "HANGO_READY_FD": str(write)},
                )
            )
        finally:
            os.close(write)
        # A fault that a test injects breaks the first process only.
        self._environment.pop("HANGO_FAULT", None)
        if not await _told_addresses(read):
            self.kill()
            raise StackError(self._failure(offset))

    def terminate(self) -> None:
        """Ask it to stop."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.alive():
            self._process.send_signal(number)

    def _failure(self, offset: int) -> str:
        with self.log.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode(errors="replace").strip().splitlines()
        last = "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
        return f"the {self.name} service did not start; its log is {self.log}\n{last}"


async def ended(alive: Callable[[], bool]) -> None:
    """Wait until a child is not alive any more, however long that takes."""
    while alive():  # noqa: ASYNC110 - a thread that waits for it would be the only event
        await asyncio.sleep(_POLL)


async def _told_addresses(read: int) -> bool:
    """Whether a service wrote its addresses to this pipe, before it ended or time was over."""
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb")
    )
    try:
        line = await asyncio.wait_for(reader.readline(), _START_TIMEOUT)
    except TimeoutError:
        return False
    finally:
        pipe.close()
    return bool(line) and isinstance(json.loads(line), dict)
