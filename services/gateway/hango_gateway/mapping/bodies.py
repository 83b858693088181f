"""Bodies of requests: what they may hold, and how they are read without losing a digit."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from hango_platform.errors import InvalidRequest, Violation
from hango_policy import strict_json
from hango_policy.errors import JsonRefused, pointer_to
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, StrictBool, ValidationError

from hango_gateway.mapping import models

MAX_BYTES = 2 * 1024 * 1024
"""The longest body, in bytes."""
_ENVELOPE = 3
"""Levels that a body may have around a value of the user's."""


def _must_be_text(value: object) -> object:
    if value is not None and not isinstance(value, str):
        msg = "should be a time as text"
        raise ValueError(msg)
    return value


class StartRun(BaseModel):
    """Starts a run."""

    agent: str = Field(max_length=256)
    input: str | list[dict[str, Any]] = Field(description="A text, or a list of content parts.")
    thread_id: str | None = Field(default=None, description="The conversation to continue.")
    metadata: dict[str, Any] | None = Field(default=None, description="Kept with the run.")


class EditCall(BaseModel):
    """Other arguments for an open call."""

    args: dict[str, Any]


class ForkRun(BaseModel):
    """Goes on from a checkpoint: as the run did, with a new input, or with other arguments for the
    open calls.
    """

    checkpoint_id: models.Id
    input: str | list[dict[str, Any]] | None = Field(
        default=None, description="A text, or a list of content parts. Open calls are left."
    )
    edit_calls: dict[str, EditCall] | None = Field(default=None, description="By tool call id.")


class Decision(BaseModel):
    """A ruling on one call, named by `tool_call_id`, by `approval_id`, or by both."""

    tool_call_id: str | None = None
    approval_id: models.Id | None = None
    decision: models.Decision
    args: dict[str, Any] | None = Field(
        default=None, description="On `edit`: the arguments to run."
    )
    message: str | None = Field(
        default=None, description="A reason (reject), or the answer as text (respond)."
    )
    value: Any = Field(default=None, description="On `respond`: the answer to an `input`.")
    tool_name: str | None = Field(default=None, description="Refused if it is another tool.")
    arguments_sha256: models.Sha256 | None = Field(
        default=None, description="Of the arguments that were shown; others are refused."
    )


class Decide(BaseModel):
    """One decision for every pending call, in any order."""

    decisions: list[Decision]


class CreateUser(BaseModel):
    """Adds a user."""

    name: str
    role: models.Role


class UpdateUser(BaseModel):
    """Changes a user; what is left out stays."""

    role: models.Role | None = None
    disabled: StrictBool | None = None


class CreateApiKey(BaseModel):
    """Makes a key of a user."""

    user_id: str = Field(json_schema_extra={"format": "uuid"})
    name: str
    expires_at: Annotated[AwareDatetime | None, BeforeValidator(_must_be_text)] = None
    scopes: list[models.Scope] = Field(
        default=["*"],
        min_length=1,
        max_length=1,
        description="All that the user may do, or reading alone.",
    )


class UpdateTenant(BaseModel):
    """Changes what the tenant demands; what is left out stays."""

    require_second_party: StrictBool | None = None


class AgentSpec(BaseModel):
    """An agent. The runner checks it and refuses what it does not know."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9-]{0,62}$")
    model: str | dict[str, Any] = Field(description="`PROVIDER:MODEL`, or a scripted model.")
    instructions: str = ""
    tools: list[str] | None = Field(default=None, description="Names and globs.")
    interrupt_on: dict[str, Any] = {}
    subagents: list[dict[str, Any]] = []
    limits: dict[str, Any] = {}
    lane: str = "default"


_Body = TypeVar("_Body", bound=BaseModel)


def parse(raw: bytes) -> strict_json.JsonValue:
    """A body as a value. Raises InvalidRequest (empty pointer) where it is not strict JSON."""
    try:
        return strict_json.parse(
            raw, max_bytes=MAX_BYTES, max_depth=strict_json.MAX_DEPTH + _ENVELOPE
        )
    except JsonRefused as error:
        raise InvalidRequest(violations=[Violation("", error.reason)]) from None


def read(model: type[_Body], raw: bytes) -> _Body:
    """A body of this kind. Raises InvalidRequest with a pointer for each fault."""
    value = parse(raw)
    if not isinstance(value, dict):
        raise InvalidRequest(violations=[Violation("", "must be an object")])
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(violations=violations(error.errors(include_input=False))) from None


def violations(faults: Any, *, skip: int = 0) -> list[Violation]:
    """The faults that pydantic found. `skip` leaves out the first parts of each location.

    Its messages say what should be there, never what is.
    """
    return [Violation(pointer_to("", *fault["loc"][skip:]), str(fault["msg"])) for fault in faults]
