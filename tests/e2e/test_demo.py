"""`hango demo`, with and without a terminal, and with services killed in the middle of it."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.e2e.up import works_for
from tests.support.waiting import wait_until

PATIENCE = 90


def start(folder: Path, stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    with (folder / "out").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "hango_cli", "demo", "--data", str(folder / "data")],
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def ended_well(folder: Path, demo: subprocess.Popen[bytes]) -> str:
    code = demo.wait(PATIENCE)
    text = (folder / "out").read_text()
    assert code == 0, text
    assert "The run succeeded." in text
    wait_until(lambda: not works_for(folder), what="the end of every process")
    return text


def test_on_a_terminal_it_asks(folder: Path) -> None:
    ours, theirs = pty.openpty()
    demo = start(folder, theirs)
    os.close(theirs)
    os.write(ours, b"reject\nnot this month\n")
    text = ended_well(folder, demo)
    os.close(ours)
    assert "bank__pay" in text
    assert '"amount": 250' in text
    assert "not this month" in text
    assert "approval.decide" in text


def test_without_one_the_admin_approves_though_services_are_killed_meanwhile(folder: Path) -> None:
    demo = start(folder, subprocess.DEVNULL)
    ready = folder / "data" / "demo-ready.json"
    wait_until(ready.exists, timeout=30, what="the stack")
    pids = json.loads(ready.read_text())["pids"]
    for name in ("runner", "approvals", "gateway", "sweeper"):
        os.kill(pids[name], signal.SIGKILL)
    text = ended_well(folder, demo)
    assert "the admin approves" in text
    assert "ops has 1000" in text
    assert "Paid 250" in text
    assert "approval.execute" in text
