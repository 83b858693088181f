"""Starting, awaiting and ending child servers that must not outlive us."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hango_cli.embedded import shim
from hango_cli.embedded.account import Account
from hango_cli.embedded.errors import EmbeddedServerError

_POLL = 0.005
_ORPHAN_GRACE = 10.0
_ORPHAN_END = 5.0
# Not our own environment: it may hold credentials, and PG* variables would change the server.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True)
class Command:
    """How a server is run: `on_parent_death` is the signal the kernel sends it when we end."""

    argv: Sequence[str | Path | int]
    cwd: Path
    log: Path
    on_parent_death: signal.Signals
    account: Account | None = None
    keep_open: Sequence[int] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: _ENVIRONMENT)


def spawn(command: Command) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, so that Ctrl-C reaches only us.

    The kernel sends the parent-death signal when the forking *thread* ends, hence the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        message = "embedded servers must be started from the main thread"
        raise EmbeddedServerError(message)
    account = command.account or Account(-1, -1)
    numbers = (int(command.on_parent_death), account.uid, account.gid, os.getpid())
    log = os.open(command.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - arguments are ours, and no shell is involved
            [sys.executable, "-I", "-S", shim.__file__, *map(str, (*numbers, *command.argv))],
            cwd=command.cwd,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=command.keep_open,
            start_new_session=True,
        )
    finally:
        os.close(log)


def await_ready(
    process: subprocess.Popen[bytes], ready: Callable[[], bool], *, timeout: float
) -> bool:
    """True once `ready()` says so; False if the process ended or `timeout` seconds passed."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        if ready():
            return True
        time.sleep(_POLL)
    return False


def end(process: subprocess.Popen[bytes], *steps: tuple[signal.Signals, float]) -> None:
    """Ask with each signal in turn, giving it the seconds that stand beside it; then SIGKILL."""
    for number, patience in steps:
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.kill()
        process.wait()


def end_orphans(name: str, folder: Path) -> None:
    """Wait until no process called `name` works in `folder` any more; hurry the slow ones.

    Whoever started them was killed (we hold the folder's lock), so they are about to end by
    themselves: two servers on the same data would destroy it. Raises EmbeddedServerError.
    """
    for grace in (_ORPHAN_GRACE, _ORPHAN_END):
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if not any(_processes_in(name, folder)):
                return
            time.sleep(_POLL)
        for pid in _processes_in(name, folder):
            os.kill(pid, signal.SIGQUIT)
    message = f"a {name} of an earlier run still works in {folder} and does not end"
    raise EmbeddedServerError(message)


def _processes_in(name: str, folder: Path) -> Iterator[int]:
    place = folder.stat()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() != name:
                continue
            where = (process / "cwd").stat()
        except OSError:  # gone meanwhile, or another user's, who cannot be in our folder
            continue
        if os.path.samestat(where, place):
            yield int(process.name)
