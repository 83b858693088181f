"""What A says about a suspension."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class VerdictState(enum.StrEnum):
    """Where a suspension stands; all but `pending` are final."""

    PENDING = "pending"
    DECIDED = "decided"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What a cancel has told A before it ends the run: to take back the suspension that it saw.

    `state` is how that stands then; None where there was none, or where A has not answered.
    """

    suspension_id: str | None
    state: VerdictState | None

    @property
    def silent(self) -> bool:
        """A was asked and has not answered."""
        return self.suspension_id is not None and self.state is None


class IncompleteVerdict(AssertionError):
    """A verdict that says `decided` does not have a decision for each call that waits."""


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The approval of one call, and its decision once there is one. `raw` are the bytes to run."""

    approval_id: str
    subagent_path: str
    call_index: int
    entry: int = 0
    decision: str | None = None
    raw: bytes | None = field(default=None, repr=False)
    message: str | None = field(default=None, repr=False)
    value: bytes | None = field(default=None, repr=False)
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A suspension as A has it. A tombstone has no calls and was never opened."""

    suspension_id: str
    state: VerdictState
    calls: Sequence[CallVerdict]
    opened_at: datetime | None
    expires_at: datetime | None
