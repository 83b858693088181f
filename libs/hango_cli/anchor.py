"""A remembered row of the audit trail. A chain can be forged whole by whoever may write the
database, but not so that it still contains a row that somebody else remembers.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hango_cli.errors import Failed

if TYPE_CHECKING:
    from hango_cli.client import Client


class Anchor:
    """The newest row at the last good verification: `{"seq", "hash"}` in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def compare(self, client: "Client") -> list[str]:
        """What does not agree with the remembered row. Raises Failed for a file that is none."""
        if not self._file.exists():
            return []
        try:
            kept = json.loads(self._file.read_text())
            seq, digest = int(kept["seq"]), str(kept["hash"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = f"{self._file} is no anchor file"
            raise Failed(message) from error
        row = _row(client, seq)
        if row is None:
            return [f"row {seq}, which {self._file} remembers, is gone"]
        return [] if row["hash"] == digest else [f"row {seq} is not the one {self._file} remembers"]

    def move(self, client: "Client") -> None:
        """Remember the newest row."""
        items = client.get("/v1/audit", page_size=1).data["items"]
        if items:
            kept = {"seq": items[0]["seq"], "hash": items[0]["hash"]}
            self._file.write_text(json.dumps(kept) + "\n")


def _row(client: "Client", seq: int) -> dict[str, Any] | None:
    """The row of this number, found by paging down from the newest."""
    token = None
    while True:
        page = client.get("/v1/audit", page_size=200, page_token=token).data
        for row in page["items"]:
            if row["seq"] <= seq:
                return row if row["seq"] == seq else None
        token = page["next_page_token"]
        if token is None:
            return None
