"""From a typed function to a tool: its schema, how it is called, how it asks a person."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

Effect = Literal["read", "keyed", "once"]
"""What may be done about a call whose outcome is unknown: `read` is safe to repeat; `keyed` is
repeated with the same idempotency key, which the tool must honour; `once` is never repeated."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolError(Exception):
    """Raise it for a failure that the model should read. The tool says by it that it knows what
    happened; any other exception leaves the call's outcome unknown.
    """


class NeedsInput(BaseException):
    """A person must answer before the call can go on; raised by `ToolCall.ask`.

    Not an Exception, so that no `except Exception` of a tool swallows the question.
    """

    def __init__(self, payload: Any, schema: dict[str, Any] | None) -> None:
        super().__init__("a person must answer")
        self.payload = payload
        self.schema = schema


@dataclass(slots=True)
class ToolCall:
    """The call at hand. A tool gets it by a parameter of this type, which the model never sees.

    `idempotency_key` is the same for every attempt at this call; `fencing_token` grows with every
    worker that holds the run; `inputs` are all answers that people have given so far.
    """

    idempotency_key: str
    tenant: str
    agent: str
    run_id: str
    tool_call_id: str
    fencing_token: str
    inputs: tuple[Any, ...] = ()
    _asked: int = field(default=0, repr=False)

    def ask(self, payload: Any, schema: dict[str, Any] | None = None) -> Any:
        """Ask a person; the answer, once there is one.

        The first time round this ends the call, and hango calls the tool again from its beginning
        when the person has answered: have no effect before you ask, and ask the same questions in
        the same order each time. `payload` is what the person is shown (any JSON), `schema` the
        JSON Schema of the answer.
        """
        if self._asked == len(self.inputs):
            raise NeedsInput(payload, schema)
        self._asked += 1
        return self.inputs[self._asked - 1]


@dataclass(frozen=True)
class Tool(Generic[P, R]):
    """A function that agents may call. Calling it calls the function.

    >>> @tool(effect="read")
    ... def weather(city: str, days: int = 1) -> str:
    ...     "How the weather will be."
    ...     return f"{city}: sun for {days} days"
    >>> weather("Bern")
    'Bern: sun for 1 days'
    >>> weather.name, weather.description, weather.effect
    ('weather', 'How the weather will be.', 'read')
    >>> weather.parameters["required"], weather.parameters["additionalProperties"]
    (['city'], False)
    """

    function: Callable[P, R]
    name: str
    description: str
    effect: Effect
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    arguments: type[BaseModel] = field(repr=False)
    """The model that reads them."""
    call_parameter: str | None = None
    """The function's parameter that takes the ToolCall."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it is."""
        return self.function(*args, **kwargs)

    def bind(self, raw: bytes, call: ToolCall) -> dict[str, Any]:
        """The function's arguments from JSON text. Raises pydantic.ValidationError.

        A number with more digits than a float holds arrives as a Decimal where the type allows
        one, and is refused where it does not.
        """
        read = self.arguments.model_validate(json.loads(raw, parse_float=_number))
        bound = {name: getattr(read, field) for field, name in _names(self.arguments).items()}
        if self.call_parameter is not None:
            bound[self.call_parameter] = call
        return bound


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, effect: Effect = "once"
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function, async or not.

    The schema comes from the signature (anything pydantic knows: `Literal`, `Annotated[int,
    Field(gt=0)]`, models), the description from the docstring. Raises TypeError for a parameter
    without a type, or one that no JSON object can name.

    >>> from typing import Literal
    >>> @tool
    ... def ship(release: str, where: Literal["staging", "production"], call: ToolCall) -> str:
    ...     "Ship a release."
    ...     return f"shipped {release} as {call.idempotency_key}"
    >>> sorted(ship.parameters["properties"])
    ['release', 'where']
    >>> ship.effect
    'once'
    """

    def make(made_of: Callable[P, R]) -> Tool[P, R]:
        called = name or made_of.__name__
        if not _NAME.fullmatch(called):
            message = f"{called!r} is no name of a tool: 1 to 64 of letters, digits, _ and -"
            raise ValueError(message)
        model, call_parameter = _arguments(made_of, called)
        schema = model.model_json_schema()
        schema.pop("title", None)
        text = description if description is not None else inspect.getdoc(made_of) or ""
        return Tool(made_of, called, text, effect, schema, model, call_parameter)

    return make if function is None else make(function)


def structured(value: Any) -> bytes:
    """A tool's value as JSON text; models, dataclasses, dates and the like included."""
    return TypeAdapter(Any).dump_json(value)


def _arguments(function: Callable[..., Any], name: str) -> tuple[type[BaseModel], str | None]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    call_parameter = None
    for place, (parameter, declared) in enumerate(inspect.signature(function).parameters.items()):
        if declared.kind not in (declared.POSITIONAL_OR_KEYWORD, declared.KEYWORD_ONLY):
            message = f"{name}: {parameter} cannot be given by name"
            raise TypeError(message)
        if parameter not in hints:
            message = f"{name}: {parameter} has no type"
            raise TypeError(message)
        if hints[parameter] is ToolCall:
            call_parameter = parameter
            continue
        default = ... if declared.default is declared.empty else declared.default
        # Fields of our own names: a parameter may be called `json` or `schema`, as methods of a
        # model are.
        fields[f"a{place}"] = (hints[parameter], _aliased(default, parameter))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return create_model(name, __config__=config, **fields), call_parameter


def _aliased(default: Any, alias: str) -> Any:
    from pydantic import Field

    return Field(default, alias=alias, title=None)


def _number(text: str) -> float | Decimal:
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else Decimal(text)


def _names(model: type[BaseModel]) -> dict[str, str]:
    return {name: info.alias or name for name, info in model.model_fields.items()}


def is_model(value: Any) -> bool:
    """Whether a value has parts of its own: something to hand on as structured content."""
    return isinstance(value, BaseModel | dict | list | tuple) or dataclasses.is_dataclass(value)
