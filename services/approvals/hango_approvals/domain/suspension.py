"""A suspension: all calls of one turn that wait for a person, and what may become of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class State(enum.StrEnum):
    """Where a suspension stands, and each of its approvals with it."""

    PENDING = "pending"
    DECIDED = "decided"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.PENDING: frozenset({State.DECIDED, State.EXPIRED, State.WITHDRAWN}),
        State.DECIDED: frozenset(),
        State.EXPIRED: frozenset(),
        State.WITHDRAWN: frozenset(),
    }
)
"""Every way out of every state: one suspension is closed once, by whoever locks it first."""


class DecisionKind(enum.StrEnum):
    """What a person rules on one call."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"


class ApprovalKind(enum.StrEnum):
    """Why a call waits: a rule stopped it, or it is a question."""

    TOOL_CALL = "tool_call"
    INPUT = "input"


class Execution(enum.StrEnum):
    """What became of a call, as the runner reports it."""

    NONE = "none"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


_ENDS = frozenset({Execution.SUCCEEDED, Execution.FAILED})
EXECUTION_TRANSITIONS: Mapping[Execution, frozenset[Execution]] = MappingProxyType(
    {
        Execution.NONE: frozenset(set(Execution) - {Execution.NONE}),
        Execution.STARTED: _ENDS | {Execution.UNKNOWN},
        # The worker that started the call may still learn how it ended.
        Execution.UNKNOWN: _ENDS,
        Execution.SUCCEEDED: frozenset(),
        Execution.FAILED: frozenset(),
        Execution.SKIPPED: frozenset(),
    }
)
"""Reports are taken forward only: they come late, twice and out of order."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that needs a person, as the runner describes it. `arguments`, `rule`, `parameters`
    and `input` are JSON text; `position` is its place in the suspension.
    """

    position: int
    subagent_path: str
    turn: int
    call_index: int
    entry: int
    tool_call_id: str
    tool_name: str
    kind: ApprovalKind
    arguments: bytes
    arguments_sha256: str
    allowed: tuple[DecisionKind, ...]
    rule: bytes
    parameters: bytes
    input: bytes | None = None
    subagent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a person rules on one call. `args` are the exact bytes of the edited arguments, with
    their digest; `value` is JSON text.
    """

    decision: DecisionKind
    args: bytes | None = None
    args_sha256: str | None = None
    message: str | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """One call in the hands of people."""

    id: str
    call: Call
    state: State
    ruling: Ruling | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    execution: Execution = Execution.NONE
    execution_at: datetime | None = None

    def runs(self) -> bytes | None:
        """The exact bytes that a worker is to run; None where nothing is to run."""
        if self.ruling is None:
            return None
        match self.ruling.decision:
            case DecisionKind.APPROVE:
                return self.call.arguments
            case DecisionKind.EDIT:
                return self.ruling.args
            case _:
                return None

    def runs_sha256(self) -> str:
        """The digest of what was decided to run, else of what was asked for."""
        edited = self.ruling.args_sha256 if self.ruling is not None else None
        return edited or self.call.arguments_sha256


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that a suspension belongs to. `tenant` is the tenant's slug."""

    tenant_id: str
    tenant: str
    run_id: str
    gen: int
    requested_by: str
    agent: str
    agent_version: int


@dataclass(frozen=True, slots=True)
class Suspension:
    """All calls of one turn that need a person. `late` says that the database's clock had passed
    the deadline when the row was locked.
    """

    id: str
    origin: Origin
    state: State
    created_at: datetime
    expires_at: datetime
    approvals: tuple[Approval, ...] = ()
    closed_at: datetime | None = None
    traceparent: str = ""
    late: bool = False

    def closed(self, state: State, at: datetime) -> Suspension:
        """This suspension and its approvals in a final state, undecided."""
        approvals = tuple(replace(a, state=state) for a in self.approvals)
        return replace(self, state=state, closed_at=at, approvals=approvals)

    def decided(self, rulings: Sequence[Ruling], *, by: str, at: datetime) -> Suspension:
        """This suspension with one ruling for each approval, in their order."""
        approvals = tuple(
            replace(a, state=State.DECIDED, ruling=r, decided_by=by, decided_at=at)
            for a, r in zip(self.approvals, rulings, strict=True)
        )
        return replace(self, state=State.DECIDED, closed_at=at, approvals=approvals)


@dataclass(frozen=True, slots=True)
class Decided:
    """The answer to a decide: the suspension as it was closed, and the event that wakes its run."""

    suspension: Suspension
    resume_event_id: str

    def as_first_answered(self) -> Decided:
        """The answer as it was given first: before anything could have run."""
        approvals = tuple(
            replace(a, execution=Execution.NONE, execution_at=None)
            for a in self.suspension.approvals
        )
        return replace(self, suspension=replace(self.suspension, approvals=approvals))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which approvals to list; None lets all pass. `requested_by` is set for those who see only
    what they started.
    """

    requested_by: str | None = None
    state: State | None = None
    tool_name: str | None = None
    agent: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a call."""

    event_id: str
    approval_id: str
    state: Execution
    at: datetime
    trace_id: str
