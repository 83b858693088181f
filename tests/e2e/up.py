"""`hango up` as a process of its own, with all that it started."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.waiting import wait_until

# Tool servers, and how many seconds each takes to answer after it has paid.
BANKS = {"bank": 0, "slow": 60}
READY = 60.0
STOPPED = 10.0
BANK = Path(__file__).parents[2] / "examples" / "bank" / "bank.py"


@dataclass
class Up:
    """A stack in `folder`; started with `start`, and again as often as needed."""

    folder: Path
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """What the bank did."""
        file = self.folder / "ledger.jsonl"
        return [json.loads(x) for x in file.read_text().splitlines()] if file.exists() else []

    def start(self) -> dict[str, Any]:
        """Start it; the ready document."""
        self.launch()
        return wait_until(self.ready, timeout=READY, what="the ready file")

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it without waiting."""
        tools = self.folder / "tools.toml"
        tools.write_text(self.tools())
        command = [sys.executable, "-m", "hango_cli", "up", "--http", "127.0.0.1:0"]
        command += ["--data", str(self.folder / "data"), "--ready-file", str(self.ready_file)]
        command += ["--tool-servers", str(tools), *self.options]
        with (self.folder / "up.out").open("wb") as out, (self.folder / "up.err").open("wb") as err:
            self.process = subprocess.Popen(
                command, env={**os.environ, **self.environment}, stdout=out, stderr=err
            )
        return self.process

    def tools(self) -> str:
        """The file of tool servers."""
        return "".join(self._bank(name, pause) for name, pause in BANKS.items())

    def _bank(self, name: str, pause: int) -> str:
        ledger = self.folder / "ledger.jsonl"
        return (
            f'[{name}]\ntransport = "mcp-stdio"\ncommand = ["{sys.executable}", "{BANK}"]\n'
            'tenants = ["*"]\neffects = { balance = "read", pay = "once", transfer = "keyed" }\n'
            f'env = {{ BANK_LEDGER = "{ledger}", BANK_PAUSE = "{pause}" }}\ntimeout = "60s"\n'
        )

    def ready(self) -> dict[str, Any] | None:
        """The ready document, None while there is none. Fails if the process has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "up.err").read_text()
        try:
            document: dict[str, Any] = json.loads(self.ready_file.read_text())
        except FileNotFoundError:
            return None
        return document

    def descendants(self) -> list[psutil.Process]:
        """Every process below it, tool servers too."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Send the signal and wait for the end; how many seconds that took. Fails where a
        descendant is left.
        """
        assert self.process is not None
        below = self.descendants()
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(2 * STOPPED)
        took = time.monotonic() - begun
        wait_until(lambda: all(map(has_ended, below)), what=f"the end of {below}")
        return took

    def kill_service(self, name: str) -> dict[str, Any]:
        """End a process as a crash would; the ready document once it was started again."""
        before = self.ready()
        assert before is not None
        os.kill(before["pids"][name], signal.SIGKILL)

        def again() -> dict[str, Any] | None:
            now = self.ready()
            return now if now and now["pids"][name] != before["pids"][name] else None

        return wait_until(again, timeout=READY, what=f"another {name}")

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL)


def has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or a zombie that this host's init has not buried yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass(frozen=True)
class Api:
    """The REST API as one user."""

    url: str
    headers: dict[str, str]

    @classmethod
    def of(cls, ready: dict[str, Any], user: str) -> "Api":
        return cls(ready["http"], {"authorization": f"Bearer {ready['credentials'][user]}"})

    def send(self, method: str, path: str, body: Any = None, **query: str) -> httpx.Response:
        """One request on a connection of its own."""
        with self.client() as client:
            return client.request(method, path, json=body, params=query)

    def client(self) -> httpx.Client:
        """A client to be closed by the caller."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=40, verify=False)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The answer of a call that must succeed."""
        answer = self.send(method, path, body, **query)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def patiently(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The same, repeated with one idempotency key while a service is down."""
        keyed = replace(self, headers={**self.headers, "idempotency-key": os.urandom(8).hex()})

        def attempt() -> httpx.Response | None:
            try:
                answer = keyed.send(method, path, body, **query)
            except httpx.TransportError:
                return None
            return None if answer.status_code in (502, 503, 504) else answer

        answer = wait_until(attempt, timeout=READY, what=f"an answer to {method} {path}")
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


def works_for(folder: Path) -> list[psutil.Process]:
    """The processes that have this folder on their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join(process.cmdline()) and not has_ended(process):
                found.append(process)
        except psutil.Error:
            continue
    return found
