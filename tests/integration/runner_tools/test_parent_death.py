"""No server stays behind, whatever ends the runner."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.tool_servers import ROOT
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
# Ends neither at the end of its input nor by SIGTERM.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
exec(open(sys.argv[1]).read())
time.sleep(600)
"""


@pytest.fixture(params=["bank", "stubborn"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with one connected tool server."""
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    odd = HERE / "odd_server.py"
    command = {
        "bank": ["python", str(ROOT / "examples" / "bank" / "bank.py")],
        "stubborn": ["python", "stubborn.py", str(odd)],
    }[request.param]
    file = tmp_path / "tools.toml"
    file.write_text(
        f'[x]\ntransport = "mcp-stdio"\ncommand = {command}\n'
        f"""env = {{ ODD_TOOLS = '[{{"name": "t", "inputSchema": {{}}}}]' }}\n"""
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.runner_tools.host", str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_kill_9_of_the_runner_leaves_no_server(host: subprocess.Popen[str]) -> None:
    assert host.stdout is not None
    server = psutil.Process(int(host.stdout.readline()))
    assert server.is_running()
    assert server.ppid() == host.pid
    os.kill(host.pid, 9)
    wait_until(lambda: not _lives(server), timeout=3, what="the server ended")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
