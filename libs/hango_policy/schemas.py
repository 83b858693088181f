"""Tool schemas: refused when they are registered, or safe to validate with for ever.

A schema comes from a tool server, which may be broken or hostile, and it judges what a human
typed. Nothing is fetched, `pattern` runs in linear time, references cannot explode (protocol,
section 4, "Schemas"). Messages are our own: a validator's messages repeat the values.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

import jsonschema
import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from hango_policy import strict_json
from hango_policy.errors import JsonRefused, SchemaRefused, Violation, pointer_to
from hango_policy.patterns import PatternAnalysis, TooComplicatedError
from hango_policy.schema_graph import survey
from hango_policy.strict_json import JsonValue

MAX_SCHEMA_BYTES = 64 * 1024
"""The longest schema, in bytes of its compact JSON text."""
MAX_SCHEMA_DEPTH = 40
"""How many arrays and objects of a schema may stand in one another."""
MAX_VIOLATIONS = 50
"""How many violations are reported of one instance."""

# Bounds the automaton of one pattern: linear time alone still let a 16-character pattern take
# 15 s over 260 KB of text. `^.{1,255}$` fits.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=512 * 1024)
# Beyond so many values only the first violation is looked for: the validator builds all at once.
_FULL_REPORT_VALUES = 2_000
_LARGEST_FRACTION = 2**53
_INEXACT = "has a fraction that is too large to be compared exactly"
_NOT_TEXT = "has an unpaired surrogate, which is not text"
_NEWEST = "https://json-schema.org/draft/2020-12/schema"
_Dialect: TypeAlias = tuple[type[jsonschema_rs.Validator], type[jsonschema.protocols.Validator]]
_DIALECTS: Mapping[str, _Dialect] = {
    "http://json-schema.org/draft-06/schema": (
        jsonschema_rs.Draft6Validator,
        jsonschema.Draft6Validator,
    ),
    "http://json-schema.org/draft-07/schema": (
        jsonschema_rs.Draft7Validator,
        jsonschema.Draft7Validator,
    ),
    "https://json-schema.org/draft/2019-09/schema": (
        jsonschema_rs.Draft201909Validator,
        jsonschema.Draft201909Validator,
    ),
    _NEWEST: (jsonschema_rs.Draft202012Validator, jsonschema.Draft202012Validator),
}


class CompiledSchema:
    """A schema that was accepted. Immutable; may be shared between tasks and threads."""

    __slots__ = ("_deepest_instance", "_validator")

    def __init__(self, validator: jsonschema_rs.Validator, deepest: int) -> None:
        self._validator = validator
        self._deepest_instance = deepest

    def violations(self, instance: JsonValue, pointer_prefix: str = "") -> list[Violation]:
        """What is wrong with `instance`, at most `MAX_VIOLATIONS`; empty if it is valid.

        Pointers start with `pointer_prefix`; messages never repeat a value of the instance.
        Numbers are compared exactly; what could not be is a violation: a fraction beyond 2**53.
        So is text with an unpaired surrogate: it is not Unicode, and neither a validator nor a
        tool could be handed it.
        """
        values, depth, is_text = _survey(instance)
        if depth > self._deepest_instance:
            return [Violation(pointer_prefix, "is nested too deeply for the schema")]
        if not is_text:
            return [Violation(pointer_prefix, _NOT_TEXT)]
        try:
            instance = _with_exact_numbers(instance)
        except _InexactError:
            return [Violation(pointer_prefix, _INEXACT)]
        if self._validator.is_valid(instance):
            return []
        found: dict[Violation, None] = {}
        for error in self._errors(instance, every=values <= _FULL_REPORT_VALUES):
            found |= dict.fromkeys(_describe(error, pointer_prefix))
            if len(found) >= MAX_VIOLATIONS:
                break
        return list(found)[:MAX_VIOLATIONS]

    def _errors(
        self, instance: JsonValue, *, every: bool
    ) -> Iterator[jsonschema_rs.ValidationError]:
        if every:
            yield from self._validator.iter_errors(instance)
            return
        try:
            self._validator.validate(instance)
        except jsonschema_rs.ValidationError as error:
            yield error


def compile_schema(schema: JsonValue) -> CompiledSchema:
    """Check a tool's schema and make it usable.

    Accepts draft 6, 7, 2019-09 and 2020-12 (where `$schema` is absent). `format` is not asserted.
    Hostile schemas are refused within 50 ms, and nothing is ever fetched. The newest results are
    kept, so that calling this again is cheap.

    Raises SchemaRefused.
    """
    try:
        text = strict_json.dumps(schema)
    except JsonRefused as error:
        raise SchemaRefused(error.reason) from None
    return _compile(text)


@lru_cache(maxsize=256)
def _compile(text: bytes) -> CompiledSchema:
    try:
        value = strict_json.parse(text, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
        schema = _with_exact_numbers(value)
    except JsonRefused as error:
        raise SchemaRefused(error.reason) from None
    except _InexactError:
        raise SchemaRefused(_INEXACT) from None
    if not isinstance(schema, dict):
        reason = "is not an object"
        raise SchemaRefused(reason)
    _, _, is_text = _survey(schema)
    if not is_text:
        raise SchemaRefused(_NOT_TEXT)
    dialect = schema.pop("$schema", _NEWEST)
    fast, thorough = _DIALECTS.get(str(dialect).removesuffix("#"), (None, None))
    if fast is None or thorough is None:
        reason = "names a $schema that is not supported here"
        raise SchemaRefused(reason)
    # An identity of its own would give the references of the document another meaning.
    schema.pop("$id", None)
    found = survey(schema)
    try:
        # The fast validator refuses quickly what would keep the thorough one busy.
        validator = fast(schema, pattern_options=_PATTERNS, validate_formats=False, offline=True)
        _refuse_exploding(found.patterns)
        thorough.check_schema(schema)
    except jsonschema_rs.ValidationError as error:
        raise SchemaRefused(_reason(error.schema_path, error.instance_path)) from None
    except jsonschema.SchemaError as error:
        raise SchemaRefused(_reason(list(error.schema_path), list(error.path))) from None
    return CompiledSchema(validator, found.deepest_instance)


def _refuse_exploding(patterns: tuple[str, ...]) -> None:
    analysis = PatternAnalysis(_matches)
    try:
        explodes = any(map(analysis.explodes, patterns))
    except TooComplicatedError:
        reason = "has a pattern that is too complicated"
        raise SchemaRefused(reason) from None
    if explodes:
        reason = "has a pattern that takes exponential time where it backtracks"
        raise SchemaRefused(reason)


def _matches(atom: str, character: str) -> bool:
    return _atom_validator(atom).is_valid(character)


@lru_cache(maxsize=1024)
def _atom_validator(atom: str) -> jsonschema_rs.Validator:
    schema = {"pattern": f"^(?:{atom})$"}
    return jsonschema_rs.Draft202012Validator(schema, pattern_options=_PATTERNS, offline=True)


def _reason(schema_path: list[str | int], path: list[str | int]) -> str:
    keyword = schema_path[-1] if schema_path else "schema"
    return f"is not a valid schema at {pointer_to('', *path) or '/'} ({keyword})"


def _survey(instance: JsonValue) -> tuple[int, int, bool]:
    """How many values there are, how deep they lie, and whether all text is Unicode."""
    values, depth, is_text = 0, -1, True
    level = [instance]
    while level:
        values, depth = values + len(level), depth + 1
        is_text = is_text and all(map(_is_text, level))
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict):
                is_text = is_text and all(map(_is_text, value))
                below += value.values()
            elif isinstance(value, list):
                below += value
        level = below
    return values, depth, is_text


class _InexactError(ValueError):
    """A fraction that the validator would round before it compares."""


def _with_exact_numbers(value: JsonValue) -> JsonValue:
    """The value in numbers that the validator compares exactly: 5.0 as 5.

    It turns the integer into a double where it meets a fraction. That loses nothing as long as
    every fraction is below 2**53: an integer that is rounded stays on its side of it.
    """
    match value:
        case Decimal():
            if value == int(value):
                return int(value)
            if abs(value) >= _LARGEST_FRACTION:
                raise _InexactError
            return value
        case list():
            return [_with_exact_numbers(item) for item in value]
        case dict():
            return {key: _with_exact_numbers(item) for key, item in value.items()}
        case _:
            return value


def _is_text(value: JsonValue) -> bool:
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _describe(error: jsonschema_rs.ValidationError, prefix: str) -> Iterator[Violation]:
    at = pointer_to(prefix, *error.instance_path)
    match error.kind:
        case Kind.Required(name):
            yield Violation(pointer_to(at, name), "is required")
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            for name in names:
                yield Violation(pointer_to(at, name), "is not allowed here")
        case Kind.UnevaluatedItems():
            yield Violation(at, "has more items than are allowed here")
        case Kind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            yield Violation(at, "has members that are not allowed here")
        case kind:
            yield Violation(at, _message(kind))


def _message(kind: Kind) -> str:
    """What a keyword asks for; only what the schema says, nothing of the instance."""
    match kind:
        case Kind.Type(types):
            return f"is not of type {' or '.join(types)}"
        case Kind.Maximum(limit):
            return f"must be at most {limit}"
        case Kind.Minimum(limit):
            return f"must be at least {limit}"
        case Kind.ExclusiveMaximum(limit):
            return f"must be less than {limit}"
        case Kind.ExclusiveMinimum(limit):
            return f"must be greater than {limit}"
        case Kind.MultipleOf(divisor):
            return f"must be a multiple of {divisor}"
        case Kind.MaxLength(limit):
            return f"must have at most {limit} characters"
        case Kind.MinLength(limit):
            return f"must have at least {limit} characters"
        case Kind.MaxItems(limit) | Kind.AdditionalItems(limit):
            return f"must have at most {limit} items"
        case Kind.MinItems(limit):
            return f"must have at least {limit} items"
        case Kind.MaxProperties(limit):
            return f"must have at most {limit} members"
        case Kind.MinProperties(limit):
            return f"must have at least {limit} members"
        case _:
            return _MESSAGES.get(kind.name, "does not satisfy the schema")


_MESSAGES: Mapping[str, str] = {
    "falseSchema": "is not allowed here",
    "enum": "is not one of the allowed values",
    "const": "is not the required value",
    "pattern": "does not match the required pattern",
    "uniqueItems": "has items that are equal",
    "contains": "does not contain the required items",
    "propertyNames": "has a member whose name is not allowed",
    "anyOf": "does not match any of the allowed forms",
    "oneOf": "does not match exactly one of the allowed forms",
    "not": "has a form that is not allowed",
}
