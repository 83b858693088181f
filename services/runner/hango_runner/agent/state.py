"""What the loop works on: a claimed run, its conversation, the calls of a batch."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hango_runner.agent.tools import ToolResult
    from hango_runner.domain.spec import AgentSpec


class LeaseLost(Exception):
    """Another worker holds the run now, or it is over: whatever was being done for it ends here."""


class CallKey(NamedTuple):
    """What a call is known by inside its run (protocol, section 4): the model's ids are not
    unique.
    """

    subagent_path: str
    turn: int
    call_index: int

    def __str__(self) -> str:
        return f"{self.subagent_path}:{self.turn}.{self.call_index}"


class Ruling(enum.StrEnum):
    """How a call was judged when it was made; never recomputed."""

    FREE = "free"
    GATED = "gated"
    BAD = "bad"


class Kind(enum.StrEnum):
    """Why a call waits for a person."""

    TOOL_CALL = "tool_call"
    INPUT = "input"


class ExecState(enum.StrEnum):
    """What became of a call."""

    NONE = "none"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"

    @property
    def settled(self) -> bool:
        """The call has a result."""
        return self in (ExecState.SUCCEEDED, ExecState.FAILED, ExecState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's ruling on one call, as T3 copied it. `raw` are the exact bytes to run."""

    kind: str
    raw: bytes | None = field(default=None, repr=False)
    message: str | None = field(default=None, repr=False)
    value: bytes | None = field(default=None, repr=False)
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call as the model asked for it: the exact text, even if it is not JSON."""

    id: str
    name: str
    arguments_raw: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call and what is known of it."""

    key: CallKey
    tool_call_id: str
    tool_name: str
    arguments: bytes = field(repr=False)
    ruling: Ruling
    kind: Kind = Kind.TOOL_CALL
    rule: dict[str, Any] | None = None
    allowed: tuple[str, ...] = ()
    parameters: dict[str, Any] | None = None
    input: dict[str, Any] | None = field(default=None, repr=False)
    approval_id: str | None = None
    decision: Decision | None = None
    exec_state: ExecState = ExecState.NONE
    exec_epoch: int = 0
    effect: str | None = None
    result: ToolResult | None = field(default=None, repr=False)
    entry: int = 0
    subagent_call_id: str | None = None
    """The `task` call of the subagent that made this call."""

    def digest(self) -> str:
        """SHA-256 of the arguments as they stand here, hex."""
        return hashlib.sha256(self.arguments).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call of an earlier run; `edited` are the arguments that a person gave it."""

    state: ExecState
    result: ToolResult | None = None
    edited: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `content` is a string or a content list."""

    role: str
    content: Any
    tool_calls: tuple[AskedCall, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    ended: str | None = None
    """How the earlier run that it belongs to ended; None for the run at hand."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """What became of each call of an earlier run, by call id."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill's SKILL.md: where it is, and how it begins."""

    path: str
    head: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Notes:
    """What an agent keeps for itself: its `/memories/AGENTS.md`, and its skills by path."""

    text: str | None = field(default=None, repr=False)
    skills: tuple[Skill, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a claimed run is taken up with.

    `messages` are the thread's earlier runs, then this one; `calls` the open batch in call order,
    empty where the model is next; `notes` what the agent keeps for itself; `worked` for how many
    seconds the run has worked, people's time not counted; `refused` the tool and the arguments
    of each call of it that a person refused; `replay` the answer that a fork takes over in place
    of asking the model.
    """

    messages: list[Message]
    calls: list[Call]
    notes: Notes
    worked: float = 0.0
    refused: Sequence[tuple[str, bytes]] = ()
    replay: Answer | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said: text, calls, or both."""

    text: str
    tool_calls: tuple[AskedCall, ...] = ()
    usage: Usage = Usage()


@dataclass(slots=True)
class Progress:
    """What all agents of a run share while it is driven.

    `pausing`: one of them waits for people, so the others start nothing more (protocol, 3.5).
    """

    model_calls: int
    pausing: bool = False


@dataclass(slots=True)
class Run:
    """A run that this worker holds, as one of its agents sees it: `epoch` is what proves it.

    The main agent has no path. A subagent's is where it was called from, `<turn>.<call_index>` a
    level; its spec, turn and next step are its own, everything else is the run's.
    """

    id: str
    tenant_id: str
    tenant: str
    agent: str
    agent_version: int
    spec: AgentSpec
    thread_id: str | None
    created_by: str
    turn: int
    next: str
    gen: int
    suspension_id: str | None
    epoch: int
    progress: Progress
    traceparent: str
    tokens: int = 0
    """Of all model calls so far, those of the request and those of the answer."""
    path: str = ""
    subagent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Suspension:
    """What A is asked to open: every call of the batch that needs a person."""

    id: str
    run_id: str
    tenant_id: str
    gen: int
    turn: int
    agent: str
    agent_version: int
    requested_by: str
    calls: tuple[Call, ...]

    def batch_sha256(self) -> bytes:
        """Over all that a repeat must have in common with the first attempt."""
        digest = hashlib.sha256(f"{self.id}/{self.run_id}/{self.gen}".encode())
        for call in self.calls:
            line = f"\n{call.key}/{call.entry}/{call.tool_name}/{call.kind}/{call.allowed}/"
            digest.update(line.encode() + call.arguments)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ends. `output` is the last answer; a failure has a reason and a message."""

    succeeded: bool
    output: str | None = None
    answer: Answer | None = None
    reason: str | None = None
    message: str | None = None


def gated(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls that need a person and have no decision yet."""
    return tuple(c for c in calls if c.ruling is Ruling.GATED and c.decision is None)
