"""The states of a run, and which follow which."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class RunState(enum.StrEnum):
    """Where a run stands. The names are those of the proto, the SQL CHECK and REST."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Nothing follows."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    # T1, T5
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED}),
    # T6 and T10, T2, T9, T6 and T9, T5
    RunState.RUNNING: frozenset(
        {
            RunState.QUEUED,
            RunState.AWAITING_APPROVAL,
            RunState.SUCCEEDED,
            RunState.FAILED,
            RunState.CANCELLED,
        }
    ),
    # T3, T4, T4w and T5
    RunState.AWAITING_APPROVAL: frozenset({RunState.QUEUED, RunState.FAILED, RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}


class FailureReason(enum.StrEnum):
    """Why a run failed, as clients read it."""

    APPROVAL_EXPIRED = "approval_expired"
    MODEL_ERROR = "model_error"
    LIMIT_EXCEEDED = "limit_exceeded"
    RECOVERY_EXHAUSTED = "recovery_exhausted"
    ROLLED_BACK = "rolled_back"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as the API shows it. `output`, `metadata` are JSON text."""

    id: str
    agent: str
    agent_version: int
    thread_id: str | None
    state: RunState
    awaiting_since: datetime | None
    suspension_id: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    output: str | None
    failure_reason: str | None
    failure_message: str | None
    forked_from: str | None
    pending_approvals: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    metadata: str
    lane: str
    gen: int

    @property
    def at_rest(self) -> bool:
        """Over, or waiting for a person: a run whose last call was decided is about to go on."""
        waiting = self.state is RunState.AWAITING_APPROVAL and self.pending_approvals > 0
        return self.state.over or waiting


@dataclass(frozen=True, slots=True)
class NewRun:
    """What T0 stores. `input` and `metadata` are JSON text."""

    id: str
    agent: str
    input: str
    metadata: str
    thread_id: str | None


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A request that may be repeated: where, under which key, and what must be equal then."""

    route: str
    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What subscribers learn about a run that is over."""

    tenant_id: str
    tenant: str
    run_id: str
    agent: str
    state: str
    reason: str | None
    last_event_seq: int
