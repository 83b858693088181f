"""What both embedded servers have in common: the order of a start, and of an end."""

import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from hango_cli.embedded.errors import EmbeddedServerError
from hango_cli.embedded.folder import DataFolder
from hango_cli.embedded.ports import choose_port
from hango_cli.embedded.spawn import Command, await_ready, end, end_orphans, spawn

_PORT_ATTEMPTS = 5
_PORT_TAKEN = "address already in use"


class EmbeddedServer(ABC):
    """A server on 127.0.0.1 with its data in one folder, living no longer than this process."""

    name: ClassVar[str]
    start_timeout: ClassVar[float]
    stop_steps: ClassVar[tuple[tuple[signal.Signals, float], ...]]

    def __init__(self, data: Path, *, durable: bool, port: int) -> None:
        self._folder = DataFolder(data)
        self._durable = durable
        self._wanted_port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The server's log file, in the data folder."""
        return self._folder.path / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The pid of the started server."""
        return self._require_started().pid

    @property
    def port(self) -> int:
        """The port the server was started on."""
        self._require_started()
        return self._folder.port

    def alive(self) -> bool:
        """Whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return once it accepts connections. From the main thread only.

        Waits for the servers of a run that was killed to end first. A wanted port must be free;
        otherwise the port of the last run is taken, or another one if that is taken by now.
        Raises EmbeddedServerError.
        """
        if self.alive():
            message = f"{self.name} runs already"
            raise EmbeddedServerError(message)
        self.stop()
        self._folder.acquire()
        try:
            working_folder = self._prepare_folders()
            end_orphans(self.name, working_folder)
            self._prepare()
            self._start_on_a_free_port()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server in good order, by force after some seconds. Harmless if it is not up."""
        if self._process is not None:
            end(self._process, *self.stop_steps)
        self._folder.release()

    @abstractmethod
    def _prepare_folders(self) -> Path:
        """Make the folder the server works in, and return it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the data, if there is none yet."""

    @abstractmethod
    def _command(self, port: int) -> Command:
        """How to run the server on `port`."""

    @abstractmethod
    def _ready(self) -> bool:
        """Whether the started server accepts connections."""

    def _require_started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            message = f"{self.name} was not started"
            raise EmbeddedServerError(message)
        return self._process

    def _start_on_a_free_port(self) -> None:
        port = offset = 0
        for _ in range(_PORT_ATTEMPTS):
            port = self._wanted_port or choose_port(self._folder.port)
            offset = self._log_size()
            self._process = spawn(self._command(port))
            if await_ready(self._process, self._ready, timeout=self.start_timeout):
                self._folder.remember_port(port)
                return
            end(self._process, *self.stop_steps)
            if self._wanted_port or _PORT_TAKEN not in self._log_since(offset).lower():
                break
        what = f"did not start on port {port}"
        raise self._failure(what, offset)

    def _log_size(self) -> int:
        """The present length of the log in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0

    def _log_since(self, offset: int) -> str:
        """What was written to the log after its first `offset` bytes."""
        with self.log.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")

    def _failure(self, what: str, offset: int) -> EmbeddedServerError:
        """An error that names the log, and ends with its last lines after `offset` bytes."""
        last = "\n".join(self._log_since(offset).strip().splitlines()[-5:])
        return EmbeddedServerError(f"{self.name} {what}; its log is {self.log}\n{last}")
