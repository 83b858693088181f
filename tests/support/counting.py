"""The test's side of `counting_server.py`: its TOML file, its ledger, its gates."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

_SERVER = Path(__file__).with_name("counting_server.py")
QUICK = Path(__file__).with_name("quick_server.py")
_EFFECTS = '{ look = "read", put = "keyed", fire = "once", fail = "once" }'


class Ledger:
    """What a counting server has done, by `item`; `folder` is its own."""

    def __init__(self, folder: Path, server: Path = _SERVER) -> None:
        self.folder = folder
        self.tool_servers = folder / "tools.toml"
        self.tool_servers.write_text(
            f"[count]\n"
            f'transport = "mcp-stdio"\n'
            f"command = {json.dumps(['python', str(server)])}\n"
            f'tenants = ["*"]\n'
            f"effects = {_EFFECTS}\n"
            f"env = {{ COUNTING_FOLDER = {json.dumps(str(folder))} }}\n"
        )

    def entries(self, item: str) -> list[dict[str, Any]]:
        """Every execution that was asked for this item, oldest first."""
        try:
            lines = (self.folder / "ledger.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [e for e in map(json.loads, lines) if e["item"] == item]

    def count(self, item: str) -> int:
        """How often a tool ran for this item."""
        return len(self.entries(item))

    def hold(self, item: str) -> Gate:
        """Keep calls of this item from answering until the gate is opened."""
        path = self.folder / f"hold-{item}"
        os.mkfifo(path)
        return Gate(self, item, path)

    def die_once(self, item: str) -> None:
        """Let the server die in mid-call, the next time it is called for this item."""
        (self.folder / f"die-{item}").touch()


class Gate:
    """A call that has been executed and does not answer yet."""

    def __init__(self, ledger: Ledger, item: str, path: Path) -> None:
        self._ledger, self._item, self._path = ledger, item, path

    async def reached(self) -> None:
        """Wait until the tool ran."""

        async def ran() -> bool:
            return self._ledger.count(self._item) > 0

        await eventually(ran, what=f"{self._item} runs")

    async def open(self) -> None:
        """Let the call answer."""

        async def opened() -> bool:
            try:
                os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            return True

        await eventually(opened, what=f"somebody waits at {self._path.name}")

    def remove(self) -> None:
        """Hold later calls no more."""
        self._path.unlink()
