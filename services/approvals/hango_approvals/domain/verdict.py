"""What the runner learns of a suspension: enough to act, and nothing to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from hango_approvals.domain.suspension import DecisionKind, State


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The ruling on one call; `args` are the exact bytes to run, where something is to run."""

    approval_id: str
    subagent_path: str
    call_index: int
    entry: int
    decision: DecisionKind | None
    args: bytes | None
    message: str | None
    value: bytes | None
    decided_by: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a suspension stands. `opened_at` and `expires_at` are None for a tombstone."""

    suspension_id: str
    state: State
    opened_at: datetime | None
    expires_at: datetime | None
    closed_at: datetime | None
    calls: tuple[CallVerdict, ...]
