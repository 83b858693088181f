"""The `when` clause of a rule: a small three-valued language over the arguments of one call.

A clause is true, false or unknown (`None`). Unknown means that the clause cannot be decided from
these arguments (one is missing, or of a type that the operator does not order); whoever asks
treats it as a reason to interrupt. It passes through `not`, `all` and `any` as in Kleene's strong
logic (contract, section 4).
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final, Literal, TypeAlias, assert_never

from hango_policy import paths, strict_json
from hango_policy.errors import JsonRefused, PathRefused, RuleInvalid, Violation, pointer_to
from hango_policy.strict_json import JsonValue

MAX_CLAUSE_BYTES = 16 * 1024
"""The longest clause that may be written, in bytes of its JSON text."""
MAX_CLAUSE_DEPTH = 16
"""How deep `all`, `any` and `not` may stand in one another."""

ArgumentPath: TypeAlias = tuple[str, ...]
Ordering: TypeAlias = Literal["gt", "gte", "lt", "lte"]


@dataclass(frozen=True, slots=True)
class All:
    clauses: tuple["Clause", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    clauses: tuple["Clause", ...]


@dataclass(frozen=True, slots=True)
class Not:
    clause: "Clause"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The argument equals one of `values`; `equals` is the case of a single one."""

    arg: ArgumentPath
    values: tuple[JsonValue, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    arg: ArgumentPath
    prefix: str


@dataclass(frozen=True, slots=True)
class Under:
    arg: ArgumentPath
    folder: str


@dataclass(frozen=True, slots=True)
class Compare:
    arg: ArgumentPath
    ordering: Ordering
    bound: int | Decimal


@dataclass(frozen=True, slots=True)
class SizeOver:
    arg: ArgumentPath
    size: int


@dataclass(frozen=True, slots=True)
class Exists:
    arg: ArgumentPath
    expected: bool


Clause: TypeAlias = All | AnyOf | Not | OneOf | Prefix | Under | Compare | SizeOver | Exists


class _Missing(Enum):
    MISSING = "missing"


_MISSING: Final = _Missing.MISSING
_COMPARE: Mapping[Ordering, Callable[[int | Decimal, int | Decimal], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def parse_when(source: object, pointer: str = "/when") -> Clause:
    """Read a clause written by a user.

    Raises RuleInvalid with every fault, each with its pointer below `pointer`.
    """
    try:
        size = strict_json.utf8_size(source)  # type: ignore[arg-type]  # refuses what is not JSON
    except JsonRefused as error:
        raise RuleInvalid([Violation(pointer, error.reason)]) from None
    if size > MAX_CLAUSE_BYTES:
        raise RuleInvalid([Violation(pointer, f"is longer than {MAX_CLAUSE_BYTES} bytes")])
    return _read(source, pointer, MAX_CLAUSE_DEPTH)


def parse_stored_when(source: object) -> Clause:
    """Read a clause back from a stored rule: it was checked before, and may be two joined."""
    return _read(source, "/when", 2 * MAX_CLAUSE_DEPTH)


def evaluate(clause: Clause, arguments: JsonValue) -> bool | None:
    """Whether the clause holds for a call with these arguments; `None` is unknown."""
    match clause:
        case All(clauses):
            return _conjunction(evaluate(one, arguments) for one in clauses)
        case AnyOf(clauses):
            return _negate(_conjunction(_negate(evaluate(one, arguments)) for one in clauses))
        case Not(inner):
            return _negate(evaluate(inner, arguments))
        case Exists(arg, expected):
            return (_look_up(arguments, arg) is not _MISSING) == expected
        case _:
            value = _look_up(arguments, clause.arg)
            return None if value is _MISSING else _test(clause, value)


def json_equal(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: 1 equals 1.0, but not `true`; members in any order."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    first, second = _number(left), _number(right)
    if first is not None and second is not None:
        return first == second
    return type(left) is type(right) and left == right


def _conjunction(results: Iterable[bool | None]) -> bool | None:
    seen = set(results)
    if False in seen:
        return False
    return None if None in seen else True


def _negate(result: bool | None) -> bool | None:
    return None if result is None else not result


def _look_up(value: JsonValue, arg: ArgumentPath) -> JsonValue | _Missing:
    for step in arg:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10 and str(int(step)) == step


def _test(clause: OneOf | Prefix | Under | Compare | SizeOver, value: JsonValue) -> bool | None:
    match clause:
        case OneOf(_, values):
            return any(json_equal(value, candidate) for candidate in values)
        case Prefix(_, prefix):
            return value.startswith(prefix) if isinstance(value, str) else None
        case Under(_, folder):
            return _is_under(value, folder)
        case Compare(_, ordering, bound):
            number = _number(value)
            return None if number is None else _COMPARE[ordering](number, bound)
        case SizeOver(_, size):
            return _is_over(value, size)
        case _:
            assert_never(clause)


def _is_under(value: JsonValue, folder: str) -> bool | None:
    """Unknown where only letter case differs: that is neither this folder nor surely another."""
    if not isinstance(value, str):
        return None
    try:
        if paths.is_under(value, folder):
            return True
        return None if paths.is_under_in_any_case(value, folder) else False
    except PathRefused:
        return None


def _is_over(value: JsonValue, size: int) -> bool | None:
    try:
        return strict_json.utf8_size(value) > size
    except JsonRefused:
        return None


def _number(value: object) -> int | Decimal | None:
    """The exact number, or None; a float is what its shortest text says."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return Decimal(repr(value))
    return value if isinstance(value, int | Decimal) else None


def _read(source: object, pointer: str, depth: int) -> Clause:
    if not isinstance(source, dict):
        raise RuleInvalid([Violation(pointer, "is not an object")])
    if depth == 0:
        raise RuleInvalid([Violation(pointer, "is nested too deeply")])
    if "arg" in source:
        return _read_test(source, pointer)
    if len(source) != 1 or not source.keys() & {"all", "any", "not"}:
        message = "must have either all, any or not alone, or arg with one operator"
        raise RuleInvalid([Violation(pointer, message)])
    ((key, body),) = source.items()
    if key == "not":
        return Not(_read(body, pointer_to(pointer, key), depth - 1))
    clauses = _read_list(body, pointer_to(pointer, key), depth - 1)
    return All(clauses) if key == "all" else AnyOf(clauses)


def _read_list(source: object, pointer: str, depth: int) -> tuple[Clause, ...]:
    # An empty `any` would never hold, and so lift a gate without a word.
    if not isinstance(source, list) or not source:
        raise RuleInvalid([Violation(pointer, "is not a list of at least one clause")])
    clauses: list[Clause] = []
    violations: list[Violation] = []
    for index, item in enumerate(source):
        try:
            clauses.append(_read(item, pointer_to(pointer, index), depth))
        except RuleInvalid as error:
            violations += error.violations
    if violations:
        raise RuleInvalid(violations)
    return tuple(clauses)


def _read_test(source: dict[str, object], pointer: str) -> Clause:
    violations: list[Violation] = []
    operators = [key for key in source if key != "arg"]
    violations += [
        Violation(pointer_to(pointer, key), "is not an operator")
        for key in operators
        if key not in _OPERATORS
    ]
    if len(operators) != 1:
        violations.append(Violation(pointer, "must have exactly one operator beside arg"))
    arg = _read_arg(source["arg"])
    if arg is None:
        violations.append(Violation(pointer_to(pointer, "arg"), "is not a dotted path"))
    if violations or arg is None:
        raise RuleInvalid(violations)
    (name,) = operators
    try:
        return _OPERATORS[name](arg, source[name])
    except _BadOperand as error:
        raise RuleInvalid([Violation(pointer_to(pointer, name), str(error))]) from None


def _read_arg(source: object) -> ArgumentPath | None:
    steps = tuple(source.split(".")) if isinstance(source, str) else ()
    return steps if steps and all(steps) else None


class _BadOperand(ValueError):
    """What an operator was given does not suit it."""


def _read_in(arg: ArgumentPath, operand: object) -> Clause:
    if not isinstance(operand, list):
        reason = "is not a list"
        raise _BadOperand(reason)
    return OneOf(arg, tuple(operand))


def _read_prefix(arg: ArgumentPath, operand: object) -> Clause:
    if not isinstance(operand, str):
        reason = "is not text"
        raise _BadOperand(reason)
    return Prefix(arg, operand)


def _read_under(arg: ArgumentPath, operand: object) -> Clause:
    if not isinstance(operand, str):
        reason = "is not text"
        raise _BadOperand(reason)
    try:
        return Under(arg, paths.canonical(operand))
    except PathRefused as error:
        raise _BadOperand(error.reason) from None


def _read_compare(ordering: Ordering) -> Callable[[ArgumentPath, object], Clause]:
    def read(arg: ArgumentPath, operand: object) -> Clause:
        bound = _number(operand)
        if bound is None:
            reason = "is not a number"
            raise _BadOperand(reason)
        return Compare(arg, ordering, bound)

    return read


def _read_size_over(arg: ArgumentPath, operand: object) -> Clause:
    size = _number(operand)
    if not isinstance(size, int) or size < 0:
        reason = "is not a whole number of bytes"
        raise _BadOperand(reason)
    return SizeOver(arg, size)


def _read_exists(arg: ArgumentPath, operand: object) -> Clause:
    if not isinstance(operand, bool):
        reason = "is neither true nor false"
        raise _BadOperand(reason)
    return Exists(arg, operand)


_OPERATORS: Mapping[str, Callable[[ArgumentPath, object], Clause]] = {
    "equals": lambda arg, operand: OneOf(arg, (operand,)),  # type: ignore[arg-type]  # any JSON
    "in": _read_in,
    "prefix": _read_prefix,
    "under": _read_under,
    **{ordering: _read_compare(ordering) for ordering in _COMPARE},
    "size_over": _read_size_over,
    "exists": _read_exists,
}
