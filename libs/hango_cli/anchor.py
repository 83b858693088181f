"""Remembered rows of the audit trail. A chain can be forged whole by whoever may write the
database, but not so that it still contains a row that somebody else remembers.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hango_cli.errors import Failed

if TYPE_CHECKING:
    from hango_cli.client import Client


class Anchor:
    """A file that remembers rows: either our own, with the newest row at the last good verification
    (`{"seq", "hash"}`), or the service's (HANGO_AUDIT_ANCHOR_FILE), with a signed head a line.
    `public_key` is the one whose signatures count; None for whichever a line itself names.
    """

    def __init__(self, file: Path, public_key: str | None = None) -> None:
        self._file = file
        self._public_key = public_key
        self._signed = False

    def compare(self, client: "Client") -> list[str]:
        """What does not agree with the remembered row. Raises Failed for a file that is none."""
        if not self._file.exists():
            return []
        try:
            lines = [json.loads(line) for line in self._file.read_text().splitlines() if line]
            self._signed = any("signature" in line for line in lines)
            kept = self._newest(client, lines) if self._signed else lines[-1]
            if kept is None:
                return [f"{self._file} has no soundly signed head of your tenant"]
            seq, digest = int(kept["seq"]), str(kept["hash"])
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            message = f"{self._file} is no anchor file"
            raise Failed(message) from error
        first = next(client.lines("/v1/audit/export", after=seq - 1, limit=1), None)
        row = json.loads(first) if first else None
        place = row.get("checkpoint", row) if row else None
        if place is None or place["seq"] < seq:
            return [f"row {seq}, which {self._file} remembers, is gone"]
        if place["seq"] > seq:
            return []  # it was pruned, behind a checkpoint that verification looks at
        return (
            [] if place["hash"] == digest else [f"row {seq} is not the one {self._file} remembers"]
        )

    def move(self, client: "Client") -> None:
        """Remember the newest row, where the file is ours."""
        items = client.get("/v1/audit", page_size=1).data["items"]
        if items and not self._signed:
            kept = {"seq": items[0]["seq"], "hash": items[0]["hash"]}
            self._file.write_text(json.dumps(kept) + "\n")

    def _newest(self, client: "Client", lines: list[dict[str, Any]]) -> dict[str, Any] | None:
        tenant_id = client.get("/v1/caller").data["tenant_id"]
        heads = [line for line in lines if line["tenant_id"] == tenant_id and self._holds(line)]
        return max(heads, key=lambda head: int(head["seq"]), default=None)

    def _holds(self, line: dict[str, Any]) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if self._public_key is not None and line["public_key"] != self._public_key:
            return False
        signed = {name: line[name] for name in ("at", "hash", "kind", "seq", "tenant_id")}
        text = json.dumps(signed, separators=(",", ":"), ensure_ascii=False).encode()
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["public_key"]))
            key.verify(bytes.fromhex(line["signature"]), text)
        except (InvalidSignature, ValueError):
            return False
        return str(line["kind"]) == "head"
