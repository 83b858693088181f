"""The JSON that the gateway answers, as models: they are its description in OpenAPI, and tests
hold the answers to them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field

Id: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Decision: TypeAlias = Literal["approve", "edit", "reject", "respond"]
Role: TypeAlias = Literal["member", "admin", "owner"]
Scope: TypeAlias = Literal["*", "read"]
RunState: TypeAlias = Literal[
    "queued", "running", "awaiting_approval", "succeeded", "failed", "cancelled"
]
ApprovalState: TypeAlias = Literal["pending", "decided", "expired", "withdrawn"]

_Item = TypeVar("_Item")


class Page(BaseModel, Generic[_Item]):
    """A part of a list, and where to go on; null at the end."""

    items: list[_Item]
    next_page_token: str | None


class FieldError(BaseModel):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer into the body; empty for all of it.")
    message: str = Field(description="What is wrong; never echoes a value.")


class Problem(BaseModel):
    """Why a request was refused (RFC 9457). Some reasons have further members."""

    type: str = Field(description="A page about this kind of problem.")
    title: str
    status: int
    detail: str
    reason: str
    errors: list[FieldError] = Field(default=[], description="Where fields are at fault.")
    remaining: list[dict[str, Any]] = Field(
        default=[], description="Of APPROVALS_INCOMPLETE: the calls without a decision."
    )
    allowed: list[Decision] = Field(
        default=[], description="Of DECISION_NOT_ALLOWED: what may be decided."
    )
    state: str | None = Field(
        default=None, description="Of APPROVALS_CLOSED: the suspension's state, else the run's."
    )


class Agent(BaseModel):
    """One version of an agent."""

    name: str
    version: int
    spec: dict[str, Any]
    interrupt_on: dict[str, Any] = Field(description="The effective rules, defaults merged.")
    warnings: list[str]
    created_at: datetime | None


class Tool(BaseModel):
    """A tool that a spec may name."""

    name: str
    description: str
    parameters: dict[str, Any] | bool = Field(description="JSON Schema of the arguments.")
    effect: Literal["read", "keyed", "once", "transactional"]
    source: str = Field(description="`builtin`, or the tool server's name.")
    unavailable: str | None = Field(description="Why it cannot be used now.")


class Failure(BaseModel):
    """Why a run failed."""

    reason: str
    message: str


class Usage(BaseModel):
    """What a run has used."""

    model_calls: int
    input_tokens: int
    output_tokens: int


class Run(BaseModel):
    """A run."""

    id: Id
    agent: str
    agent_version: int
    thread_id: str | None
    state: RunState
    awaiting_since: datetime | None
    suspension_id: Id | None
    created_by: Id
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    output: Any
    failure: Failure | None
    forked_from: Id | None
    pending_approvals: int = Field(description="Calls that wait for a person now.")
    usage: Usage
    metadata: dict[str, Any]
    lane: str


class ToolCall(BaseModel):
    """A call as the model asked for it."""

    id: str
    name: str
    arguments: Any = Field(description="Null where the text is not JSON.")
    arguments_raw: str = Field(description="The exact text.")


class Message(BaseModel):
    """One message of a transcript."""

    seq: int
    role: Literal["system", "user", "assistant", "tool"]
    content: Any
    tool_calls: list[ToolCall]
    tool_call_id: str | None
    tool_name: str | None
    is_error: bool
    subagent_call_id: str | None
    created_at: datetime


class Thread(BaseModel):
    """A conversation over several runs."""

    id: str
    agent: str
    created_by: Id
    created_at: datetime
    runs: int = Field(description="How many it has.")
    live_run_id: Id | None = Field(description="The run that is not over.")


class ThreadMessage(Message):
    """One message of a thread."""

    run_id: Id


class Checkpoint(BaseModel):
    """A point where the run could stop."""

    checkpoint_id: Id
    turn: int = Field(description="Answers that the model had given.")
    next: Literal["model", "tools"]
    message_count: int = Field(description="The number of the last message there.")
    created_at: datetime


class JudgedCall(ToolCall):
    """An open call, as it was judged."""

    ruling: Literal["free", "gated", "bad"]
    allowed_decisions: list[Decision]


class CheckpointState(Checkpoint):
    """The state at a checkpoint."""

    messages: list[Message] = Field(description="Up to there, oldest first.")
    next_page_token: str | None = Field(description="Where the messages go on.")
    pending_calls: list[JudgedCall]
    todos: list[dict[str, Any]] = Field(description="Of the last `write_todos` that ran before.")


class ExecutedCall(BaseModel):
    """A call that has run, or may have."""

    run_id: Id
    tool_call_id: str
    tool_name: str
    state: Literal["started", "succeeded", "failed", "unknown"]


class ForkedRun(Run):
    """A fork, and what it cannot undo."""

    effects_before: list[ExecutedCall] = Field(description="Done before the checkpoint.")
    effects_after: list[ExecutedCall] = Field(
        description="Done by the original since; the fork may do it once more."
    )


class ComparedCall(ToolCall):
    """A call and what came of it."""

    decision: Decision | None
    state: str
    result: Any = Field(description="What the model was told; null where nothing yet.")
    is_error: bool


class CallPair(BaseModel):
    """The calls at one place of two runs."""

    step: int = Field(description="Answers of the model since the runs parted, from 0.")
    call_index: int
    same: bool = Field(description="Tool, arguments, decision and result are equal.")
    a: ComparedCall | None
    b: ComparedCall | None


class Difference(Page[CallPair]):
    """Where two runs part."""

    origin_run_id: Id = Field(description="The run that both come from; perhaps one of them.")
    shared_messages: int = Field(description="The number of the last message in common.")


class Execution(BaseModel):
    """What became of a call."""

    state: Literal["none", "started", "succeeded", "failed", "unknown", "skipped"]
    at: datetime | None


class Question(BaseModel):
    """What a tool asks a person."""

    payload: Any = None
    json_schema: Any = Field(default=None, alias="schema", description="Of the answer.")


class Approval(BaseModel):
    """One call that waits for a person, or did."""

    id: Id
    run_id: Id
    suspension_id: Id
    turn: int
    call_index: int
    tool_call_id: str
    tool_name: str
    kind: Literal["tool_call", "input"]
    arguments: Any = Field(description="Null where the text is not JSON.")
    arguments_raw: str = Field(description="The exact text.")
    arguments_sha256: Sha256
    allowed_decisions: list[Decision]
    state: ApprovalState
    decision: Decision | None
    decision_args: Any
    decision_message: str | None
    decision_value: Any
    decided_by: Id | None
    decided_at: datetime | None
    created_at: datetime
    expires_at: datetime
    subagent_call_id: str | None
    subagent_path: str = Field(
        description="`<turn>.<call_index>` a level, joined by `/`; empty for the main agent."
    )
    input: Question | None
    rule: Any = Field(description="The entry that fired.")
    parameters: Any = Field(description="JSON Schema of the tool's arguments.")
    agent: str
    agent_version: int
    requested_by: Id
    execution: Execution


class AuditEvent(BaseModel):
    """One row of the audit trail."""

    id: Id
    seq: int
    at: datetime
    tenant_id: Id
    actor_kind: Literal["user", "system"]
    actor_id: Id | None
    action: str
    target_kind: str
    target_id: str
    outcome: Literal["ok", "denied", "error"]
    detail: dict[str, Any]
    trace_id: str | None
    prev_hash: Sha256
    hash: Sha256


class ApprovalDetail(Approval):
    """One approval with all of its suspension, and what has happened to it, oldest first."""

    batch: list[Approval]
    lifecycle: list[AuditEvent]


class Decided(BaseModel):
    """The decision is stored; the run goes on."""

    run_id: Id
    suspension_id: Id
    approvals: list[Approval]
    resume_event_id: Id


class AuditProblem(BaseModel):
    """One fault of the chain."""

    seq: int
    problem: str


class AuditCheck(BaseModel):
    """What the check of the chain found."""

    ok: bool
    checked: int
    problems: list[AuditProblem]


class User(BaseModel):
    """A user."""

    id: Id
    name: str
    role: Role
    disabled: bool
    created_at: datetime


class ApiKey(BaseModel):
    """A key without its secret."""

    id: Id
    user_id: Id
    name: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    scopes: list[Scope]


class NewApiKey(ApiKey):
    """A new key. The secret cannot be had again."""

    secret: str


class Tenant(BaseModel):
    """A tenant."""

    id: Id
    name: str
    require_second_party: bool
    created_at: datetime


class Caller(BaseModel):
    """Who calls."""

    tenant_id: Id
    tenant: str
    user_id: Id
    user_name: str
    role: Role


class Health(BaseModel):
    """Whether the gateway serves."""

    status: Literal["ok", "stopping"]
