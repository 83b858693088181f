"""What the API answers, typed. Members that this release does not know are left out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

LEFT_OUT: Any = object()
"""Stands for a value that is not given, where None is one."""


@dataclass(frozen=True)
class Usage:
    """What a run has used so far."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Failure:
    """Why a run failed."""

    reason: str
    message: str | None = None


@dataclass(frozen=True)
class Run:
    """A run as it was when it was asked for.

    `state` is `queued`, `running`, `awaiting_approval`, `succeeded`, `failed` or `cancelled`.
    """

    id: str
    agent: str
    agent_version: int
    state: str
    created_by: str
    created_at: datetime
    thread_id: str | None = None
    awaiting_since: datetime | None = None
    suspension_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    output: Any = None
    failure: Failure | None = None
    forked_from: Any = None
    pending_approvals: int = 0
    usage: Usage = Usage()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lane: str = "default"

    @property
    def finished(self) -> bool:
        """Nothing more will happen."""
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class AskedCall:
    """A call as the model asked for it; `arguments` None where its text is no JSON."""

    id: str
    name: str
    arguments_raw: str = field(repr=False)
    arguments: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Message:
    """One message of a run's transcript."""

    seq: int
    role: str
    content: Any
    created_at: datetime
    tool_calls: tuple[AskedCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    subagent_call_id: str | None = None


@dataclass(frozen=True)
class Execution:
    """What became of a call: `none`, `started`, `succeeded`, `failed`, `unknown`, `skipped`."""

    state: str = "none"
    at: datetime | None = None


@dataclass(frozen=True)
class Decision:
    """A person's ruling on one call; made by the methods of Approval, or by hand."""

    decision: str
    approval_id: str | None = None
    tool_call_id: str | None = None
    args: Any = None
    message: str | None = None
    value: Any = LEFT_OUT
    arguments_sha256: str | None = None

    def body(self) -> dict[str, Any]:
        """The decision as the API takes it.

        >>> Decision("reject", tool_call_id="c1", message="wrong account").body()
        {'decision': 'reject', 'tool_call_id': 'c1', 'message': 'wrong account'}
        """
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if said["value"] is LEFT_OUT:
            del said["value"]
        return {k: v for k, v in said.items() if v is not None or k == "value"}


@dataclass(frozen=True)
class Approval:
    """A call that waits, or waited, for a person.

    `arguments_raw` is the exact text that runs if it is approved; `arguments` the same as Python
    reads it.
    """

    id: str
    run_id: str
    suspension_id: str
    turn: int
    tool_call_id: str
    tool_name: str
    state: str
    allowed_decisions: tuple[str, ...]
    arguments_raw: str = field(repr=False)
    arguments_sha256: str = field(repr=False)
    created_at: datetime
    expires_at: datetime
    arguments: Any = field(default=None, repr=False)
    kind: str = "tool_call"
    decision: str | None = None
    decision_args: Any = field(default=None, repr=False)
    decision_message: str | None = field(default=None, repr=False)
    decision_value: Any = field(default=None, repr=False)
    decided_by: str | None = None
    decided_at: datetime | None = None
    subagent_call_id: str | None = None
    subagent_path: str = ""
    input: Any = field(default=None, repr=False)
    rule: Any = None
    parameters: Any = field(default=None, repr=False)
    agent: str = ""
    agent_version: int = 0
    requested_by: str = ""
    execution: Execution = Execution()

    def approve(self) -> Decision:
        """Run it with the arguments that are shown here, and no others."""
        return self._decide("approve")

    def edit(self, args: Mapping[str, Any]) -> Decision:
        """Run it with these arguments."""
        return self._decide("edit", args=dict(args))

    def reject(self, message: str | None = None) -> Decision:
        """Do not run it; the model reads why."""
        return self._decide("reject", message=message)

    def respond(self, message: str | None = None, *, value: Any = LEFT_OUT) -> Decision:
        """Do not run it; answer in its place, by text, or by a value for a question."""
        return self._decide("respond", message=message, value=value)

    def _decide(self, decision: str, **more: Any) -> Decision:
        return Decision(
            decision, approval_id=self.id, arguments_sha256=self.arguments_sha256, **more
        )


@dataclass(frozen=True)
class Decided:
    """What a decision did."""

    run_id: str
    suspension_id: str
    approvals: tuple[Approval, ...]
    resume_event_id: str | None = None


@dataclass(frozen=True)
class Agent:
    """A version of an agent. `interrupt_on` are the rules in force, defaults merged in."""

    name: str
    version: int
    spec: Mapping[str, Any] = field(repr=False)
    interrupt_on: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True)
class ToolInfo:
    """A tool that an agent may name; `unavailable` says why it cannot be called now."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(repr=False)
    effect: str
    source: str
    unavailable: str | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. `id` is None for `model.delta`, which is never kept."""

    id: int | None
    type: str
    data: Mapping[str, Any] = field(repr=False)


def read(kind: type[T], found: Mapping[str, Any]) -> T:
    """A value of this kind from what the API said.

    >>> read(Failure, {"reason": "limit_exceeded", "message": None, "new": 1})
    Failure(reason='limit_exceeded', message=None)
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    return kind(**{name: _value(hints[name], found[name]) for name in hints if name in found})


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind, localns={"Mapping": dict})


def _value(hint: Any, found: Any) -> Any:
    if found is None:
        return None
    inner = get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(found, dict):
        return read(hint, found)  # type: ignore[arg-type]  # a class: the hint of a field
    if hint is datetime or datetime in inner:
        return datetime.fromisoformat(found)
    if isinstance(found, list):
        return tuple(_value(inner[0], each) for each in found) if inner else found
    nested = next((each for each in inner if dataclasses.is_dataclass(each)), None)
    if nested is not None and isinstance(found, dict):
        return read(nested, found)  # type: ignore[arg-type]  # as above
    return found
