"""An agent as it was saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """One immutable version. `spec` and `interrupt_on` (effective, defaults merged) are JSON
    text.
    """

    tenant_id: str
    name: str
    version: int
    spec: str
    spec_sha256: str
    interrupt_on: str
    warnings: tuple[str, ...]
    created_at: datetime | None = None
    deleted: bool = False
