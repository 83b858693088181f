"""A server's data folder: one owner at a time, and what must outlive a restart."""

import contextlib
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import TypedDict

from hango_cli.embedded.errors import EmbeddedServerError


class _Remembered(TypedDict):
    port: int
    passwords: dict[str, str]


class DataFolder:
    """`path/` with `server.json` (0600: port and passwords) and a lock that ends with its holder.

    A folder that exists is used as it is; one that does not is created 0711, so that an account
    PostgreSQL drops to can pass, but not look. All files in it are 0600.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None
        self._remembered: _Remembered = {"port": 0, "passwords": {}}

    def acquire(self) -> None:
        """Take the folder for this process. Raises EmbeddedServerError if another has it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            message = f"the data folder {self.path} cannot be used: {error.strerror}"
            raise EmbeddedServerError(message) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            message = f"the data folder {self.path} is in use by another hango on this host"
            raise EmbeddedServerError(message) from error
        self._lock = lock
        with contextlib.suppress(FileNotFoundError):
            self._remembered = json.loads(self._file.read_text())

    def release(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def port(self) -> int:
        """The port of the last run, 0 if there was none."""
        return self._remembered["port"]

    def remember_port(self, port: int) -> None:
        """Keep `port` for the next run."""
        if port != self.port:
            self._remembered["port"] = port
            self._save()

    def knows(self, login: str) -> bool:
        """Whether a password for `login` was generated before."""
        return login in self._remembered["passwords"]

    def password(self, login: str) -> str:
        """The password of `login`, generated at the first call; safe in a URL and in a config."""
        if not self.knows(login):
            self._remembered["passwords"][login] = secrets.token_urlsafe(24)
            self._save()
        return self._remembered["passwords"][login]

    def write(self, name: str, text: str) -> Path:
        """Replace the file `name` atomically, mode 0600, on disk before this returns."""
        target, fresh = self.path / name, self.path / f"{name}.new"
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        return fresh.rename(target)

    @property
    def _file(self) -> Path:
        return self.path / "server.json"

    def _save(self) -> None:
        self.write(self._file.name, json.dumps(self._remembered, indent=1) + "\n")
