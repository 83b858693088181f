"""How a command can fail."""

from collections.abc import Mapping
from typing import Any


class Failed(Exception):
    """The command cannot do it; the message says why."""


class Unreachable(Exception):
    """Nobody answered."""


class Problem(Exception):
    """The server refused; `document` is its problem document (RFC 9457)."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(str(document.get("detail") or document.get("title") or f"HTTP {status}"))
        self.status = status
        self.document = document

    @property
    def reason(self) -> str:
        """The upper-case reason, such as APPROVALS_CLOSED; empty where a proxy answered."""
        return str(self.document.get("reason", ""))
