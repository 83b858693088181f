"""What must be the same after a restart with the same data folder: ports and secrets."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

from hango_cli.embedded import EmbeddedServerError
from hango_cli.embedded.folder import DataFolder
from hango_cli.embedded.ports import choose_port
from hango_cli.stack.errors import StackError

_FILE = "stack.json"


class Keep:
    """The data folder with `stack.json` (0600) in it, owned by one stack at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = DataFolder(folder)
        self._ports: dict[str, int] = {}
        self._secrets: dict[str, str] = {}
        self._handed_out: set[int] = set()

    @property
    def path(self) -> Path:
        """The folder."""
        return self._folder.path

    def open(self) -> None:
        """Take the folder and read what is kept. Raises StackError where another stack has it."""
        try:
            self._folder.acquire()
        except EmbeddedServerError as error:
            raise StackError(str(error)) from None
        file = self.path / _FILE
        if not file.exists():
            return
        try:
            kept = json.loads(file.read_text())
            self._ports, self._secrets = kept["ports"], kept["secrets"]
        except (ValueError, KeyError, TypeError) as error:
            message = f"{file} is damaged: put a good copy back, or move {self.path} away"
            raise StackError(message) from error

    def close(self) -> None:
        """Let another stack have the folder."""
        self._folder.release()

    def port(self, name: str) -> int:
        """The port of this name: the kept one, unless it is taken by now."""
        port = choose_port(self._ports.get(name, 0))
        while port in self._handed_out:
            port = choose_port()
        self._handed_out.add(port)
        self._ports[name] = port
        return port

    def secret(self, name: str, make: Callable[[], str]) -> str:
        """The kept secret of this name; made once."""
        if name not in self._secrets:
            self._secrets[name] = make()
        return self._secrets[name]

    def save(self) -> None:
        """Write it all down; call this before any of it is used."""
        kept = {"ports": self._ports, "secrets": self._secrets}
        self._folder.write(_FILE, json.dumps(kept, indent=1) + "\n")


def require_free(host: str, port: int) -> None:
    """Raises StackError if nobody could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            message = f"cannot listen on {host}:{port} ({error.strerror}); choose another --http"
            raise StackError(message) from None
