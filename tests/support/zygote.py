"""Starts services as processes of their own in a tenth of a second, where importing them takes
one to five: a process that has imported them all forks.

`Zygote` is the tests' side; the module run by itself is the process. One order a line on its
standard input, one pid a line on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SERVICES = ("approvals", "runner", "sweeper", "gateway")


class Process:
    """A service as a process, `kill -9` and all. Its log is a file."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._handle = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._handle, self._on_end)

    def _on_end(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set()

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as the loop has heard."""
        return not self._ended.is_set()

    async def ended(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it is still there."""
        if self.alive:
            signal.pidfd_send_signal(self._handle, number)

    async def kill(self) -> None:
        """End it as a crash would."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def stop(self, patience: float = 10.0) -> None:
        """End it in good order. Raises TimeoutError where it does not within these seconds."""
        self.send(signal.SIGTERM)
        async with asyncio.timeout(patience):
            await self.ended()

    def lines(self) -> list[str]:
        """Its log so far."""
        return self.log.read_text(errors="replace").splitlines()


class Zygote:
    """The forking process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def fork(self, service: str, environment: Mapping[str, str], log: Path) -> Process:
        """Start a service with these `HANGO_*` variables and nothing else of ours."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        order = {"service": service, "environment": dict(environment), "log": str(log)}
        into.write(json.dumps(order).encode() + b"\n")
        into.flush()
        return Process(int(out.readline()), log)


@contextmanager
def running_zygote() -> Iterator[Zygote]:
    """One for a test session; all that it forked ends with it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.zygote"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield Zygote(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _become(order: Mapping[str, object]) -> None:
    """In the child: be the service, as `python -m hango_SERVICE` would."""
    from importlib import import_module, reload

    from hango_platform import faults

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_parent()
    os.setsid()
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((null, log, log)):
        os.dup2(file, number)
    given = order["environment"]
    assert isinstance(given, dict)
    os.environ.update(given)
    reload(faults)  # it reads HANGO_FAULT when it is imported
    import_module(f"hango_{order['service']}.__main__").main()


def _serve(orders: IO[bytes], pids: IO[bytes]) -> None:
    from importlib import import_module

    for service in SERVICES:
        import_module(f"hango_{service}.__main__")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    pids.write(b"\n")
    pids.flush()
    while line := orders.readline():
        pid = os.fork()
        if not pid:
            code = 1
            try:
                _become(json.loads(line))
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.write(b"%d\n" % pid)
        pids.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
