"""The agent spec of the contract, section 4: read strictly, since a typo here removes a gate."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from hango_platform.errors import InvalidRequest, Violation
from hango_platform.settings import Duration, parse_duration
from hango_policy.errors import pointer_to
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

_MAX_SUBAGENT_DEPTH = 3


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_Strict):
    """A call of the scripted model; `arguments_raw` is the exact text, even ill-formed."""

    id: str = ""
    name: str
    arguments: dict[str, Any] | None = None
    arguments_raw: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> ScriptedCall:
        if self.arguments is not None and self.arguments_raw is not None:
            msg = "has both arguments and arguments_raw"
            raise ValueError(msg)
        return self


class ScriptedTurn(_Strict):
    """One answer of the scripted model."""

    text: str = ""
    tool_calls: list[ScriptedCall] = []
    error: Literal["rate_limit", "server", "timeout"] | None = None
    delay_ms: Annotated[int, Field(ge=0, le=600_000)] = 0


class ScriptedModel(_Strict):
    """A model that plays a script: for demos and tests without a network."""

    provider: Literal["scripted"]
    turns: list[ScriptedTurn]


ModelName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+:\S+$", max_length=200)]


class Limits(_Strict):
    """What ends a run that does not end by itself.

    `max_tokens` counts those of all requests and answers, `max_wall_time` what is not spent in
    waiting for people; both are unlimited when left out. `max_repeated_refusals` is how often
    people are asked for the same call, if they refuse it each time.
    """

    max_turns: Annotated[int, Field(ge=1, le=1000)] = 50
    max_model_calls: Annotated[int, Field(ge=1, le=10_000)] = 200
    max_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    max_wall_time: Duration | None = None
    max_repeated_refusals: Annotated[int, Field(ge=1, le=1000)] = 3
    tool_timeout: Duration = parse_duration("60s")

    @model_validator(mode="after")
    def _some_time(self) -> Limits:
        if not 0 < self.tool_timeout.total_seconds() <= 3600:
            msg = "tool_timeout must be more than nothing and at most 1h"
            raise ValueError(msg)
        if self.max_wall_time is not None and not self.max_wall_time:
            msg = "max_wall_time must be more than nothing"
            raise ValueError(msg)
        return self


class Subagent(_Strict):
    """An agent that the main agent may hand a task to."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    description: Annotated[str, Field(min_length=1, max_length=2000)]
    instructions: Annotated[str, Field(max_length=100_000)] = ""
    model: ModelName | ScriptedModel | None = None
    tools: list[str] | None = None
    interrupt_on: dict[str, Any] | None = None
    subagents: list[Subagent] = []


class AgentSpec(_Strict):
    """An agent. `interrupt_on` is read by hango_policy."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    model: ModelName | ScriptedModel
    instructions: Annotated[str, Field(max_length=100_000)] = ""
    tools: list[str] | None = None
    interrupt_on: dict[str, Any] = {}
    subagents: list[Subagent] = []
    limits: Limits = Limits()
    lane: str = "default"

    @model_validator(mode="after")
    def _bounded_subagents(self) -> AgentSpec:
        def check(subagents: list[Subagent], depth: int) -> None:
            if subagents and depth > _MAX_SUBAGENT_DEPTH:
                msg = f"subagents go at most {_MAX_SUBAGENT_DEPTH} levels deep"
                raise ValueError(msg)
            names = [s.name for s in subagents]
            if len(set(names)) != len(names):
                msg = "two subagents of one agent have the same name"
                raise ValueError(msg)
            for s in subagents:
                check(s.subagents, depth + 1)

        check(self.subagents, 1)
        return self


def as_agent(subagent: Subagent, parent: AgentSpec) -> AgentSpec:
    """A subagent as the agent that it is: what it does not declare is its parent's.

    One that declares `interrupt_on`, even `{}`, drops all of the parent's entries.
    """
    return AgentSpec(
        name=subagent.name,
        model=parent.model if subagent.model is None else subagent.model,
        instructions=subagent.instructions,
        tools=parent.tools if subagent.tools is None else subagent.tools,
        interrupt_on=parent.interrupt_on
        if subagent.interrupt_on is None
        else subagent.interrupt_on,
        subagents=subagent.subagents,
        limits=parent.limits,
        lane=parent.lane,
    )


_UNION_TAGS = {"ScriptedModel", "str", "constrained-str"}


def read_spec(source: object) -> AgentSpec:
    """The spec, if it is one. Raises InvalidRequest with a pointer for each fault."""
    if not isinstance(source, dict):
        msg = "an agent spec is an object"
        raise InvalidRequest(msg, violations=[Violation("", "must be an object")])
    try:
        return AgentSpec.model_validate(source)
    except ValidationError as error:
        violations = [
            Violation(
                pointer_to("", *(p for p in e["loc"] if not _is_union_tag(p))), _message(e["msg"])
            )
            for e in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        msg = "the agent spec is not valid"
        raise InvalidRequest(msg, violations=violations) from None


def _is_union_tag(part: int | str) -> bool:
    return isinstance(part, str) and (part in _UNION_TAGS or part.startswith("constrained-"))


def _message(text: str) -> str:
    return text.removeprefix("Value error, ")[:1].lower() + text.removeprefix("Value error, ")[1:]
