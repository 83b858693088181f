"""A data folder per test, and another process that runs the embedded servers."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until

PARENT = """
import json, signal, sys
from pathlib import Path
from hango_cli.embedded import EmbeddedNats, EmbeddedPostgres
data = Path(sys.argv[1])
postgres, nats = EmbeddedPostgres(data / "postgres"), EmbeddedNats(data / "nats")
postgres.start()
nats.start()
print(json.dumps({
    "pids": [postgres.pid, nats.pid], "dsn": postgres.superuser_dsn(), "nats": nats.url,
}), flush=True)
signal.pause()
"""


@dataclass
class Parent:
    """A process with both servers as its children."""

    process: subprocess.Popen[str]
    dsn: str
    nats_url: str
    servers: list[psutil.Process]
    "The servers and all that they started."

    def kill(self) -> None:
        """End the parent as no handler can see: SIGKILL."""
        self.process.kill()
        self.process.communicate()

    def await_no_server(self) -> None:
        """Fail unless every server process ends soon."""
        wait_until(lambda: all(map(has_ended, self.servers)), what=f"the end of {self.servers}")


def start_parent(
    data: Path, *, launcher: Sequence[str | Path] = (sys.executable,), env: dict[str, str] | None
) -> Parent:
    """Run both servers below `data` from a process of their own, and wait until they are up."""
    process = subprocess.Popen(
        [*launcher, "-c", PARENT, data], stdout=subprocess.PIPE, text=True, env=env, cwd="/"
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the parent failed, see its traceback on stderr"
    told = json.loads(line)
    servers = [psutil.Process(pid) for pid in told["pids"]]
    servers += [child for server in servers for child in server.children(recursive=True)]
    return Parent(process, told["dsn"], told["nats"], servers)


def has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or a zombie that this host's init has not buried yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder to keep servers' data below; closed (0700) to the account PostgreSQL drops to."""
    with tempfile.TemporaryDirectory(prefix="hango-embedded-") as folder:
        yield Path(folder)
