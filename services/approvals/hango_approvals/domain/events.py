"""What the service tells others: ids, states and times."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hango_platform import ids

if TYPE_CHECKING:
    from datetime import datetime

    from hango_approvals.domain.suspension import Approval, Suspension


class EventKind(enum.StrEnum):
    """What happened, as the bus names it."""

    REQUESTED = "approval.requested"
    DECIDED = "approval.decided"
    EXPIRED = "approval.expired"
    WITHDRAWN = "approval.withdrawn"


@dataclass(frozen=True, slots=True)
class ApprovalChanged:
    """One approval came to be, or was closed."""

    kind: EventKind
    suspension: Suspension
    approval: Approval
    at: datetime
    id: str = field(default_factory=ids.new_id)

    @classmethod
    def of(cls, kind: EventKind, suspension: Suspension, at: datetime) -> list[ApprovalChanged]:
        """One event for each approval of a suspension."""
        return [cls(kind, suspension, approval, at) for approval in suspension.approvals]


@dataclass(frozen=True, slots=True)
class RunResume:
    """A suspension is closed: its run is to ask how."""

    suspension: Suspension
    at: datetime
    id: str = field(default_factory=ids.new_id)


Event = ApprovalChanged | RunResume
