"""JSON that keeps every digit and refuses every ambiguity.

A human approves the text of a call, so two readers of that text must never see two different
things: duplicate keys, NaN and doubtful encodings are refused, numbers stay exact. The reasons
(what jsonb, protobuf and JSON libraries do to arguments) are in the protocol, section 4.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import NoReturn, TypeAlias

from hango_policy.errors import JsonRefused

# A float only comes from other parsers (agent specs, schemas); `parse` itself never returns one.
JsonValue: TypeAlias = (
    bool | int | float | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"] | None
)

MAX_CALL_BYTES = 256 * 1024
"""The longest arguments of one call, in bytes."""
MAX_BATCH_BYTES = 1024 * 1024
"""The longest arguments of all calls of one answer together, in bytes."""
MAX_DEPTH = 64
"""How many arrays and objects may stand in one another."""
MAX_DIGITS = 400
"""How many digits a number may be written with."""
MAX_EXPONENT = 400
"""How large an exponent may be written: a short text must not stand for a huge number."""

# Possessive, and the closing quote is optional: an unterminated string is eaten once, in linear
# time, and refused later by the parser proper.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_TOKEN = re.compile(
    rb'[ \t\n\r]*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^ \t\n\r"\[\]{},:]++)', re.DOTALL
)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def parse(raw: bytes, *, max_bytes: int = MAX_CALL_BYTES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Read one JSON text (RFC 8259, UTF-8, no byte order mark).

    Integers come back as `int`, every other number as `Decimal`, both exact. Unpaired surrogate
    escapes and NUL are kept as they are. Takes time linear in the size of `raw`.

    Raises JsonRefused for anything else: duplicate keys, NaN and Infinity, invalid UTF-8,
    trailing text, and what exceeds the limits of this module.
    """
    if len(raw) > max_bytes:
        reason = f"is longer than {max_bytes} bytes"
        raise JsonRefused(reason)
    if _depth(raw) > max_depth:
        reason = f"is nested deeper than {max_depth} levels"
        raise JsonRefused(reason)
    try:
        value: JsonValue = json.loads(
            raw.decode("utf-8"),
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        reason = "is not UTF-8"
        raise JsonRefused(reason) from None
    except json.JSONDecodeError as error:
        reason = f"is not well-formed JSON (character {error.pos})"
        raise JsonRefused(reason) from None
    return value


def dumps(value: JsonValue) -> bytes:
    """Write compact ASCII JSON; `parse(dumps(value)) == value` for all that `parse` returns.

    Raises JsonRefused for what JSON cannot hold: NaN, keys that are not text, other types, or
    nesting beyond `MAX_DEPTH`.
    """
    return _write(value, encode_basestring_ascii, MAX_DEPTH).encode("ascii")


def utf8_size(value: JsonValue) -> int:
    """The length in bytes of the compact JSON text of `value`, non-ASCII text being UTF-8."""
    return len(_write(value, encode_basestring, MAX_DEPTH).encode("utf-8", "surrogatepass"))


def raw_slice(raw: bytes, path: Sequence[str | int]) -> bytes:
    """The exact bytes of the member at `path`, such as `("decisions", 0, "args")`.

    The surrounding white space is left out, everything inside is kept. The document may be as
    deep as the member allows: `MAX_DEPTH` below `path`.

    Raises JsonRefused if `raw` as a whole is not strict JSON, LookupError if there is no such
    member.
    """
    parse(raw, max_bytes=len(raw), max_depth=MAX_DEPTH + len(path))
    position = 0
    for step in path:
        position = _enter(raw, position, step)
    start, _ = _token(raw, position)
    return raw[start : _end_of_value(raw, position)]


def raw_members(raw: bytes) -> dict[str, bytes]:
    """The exact bytes of every member of an object, in one pass.

    `raw` is a text that `parse` accepts, or a part of one. Raises LookupError for another value.
    """
    return dict(_children(raw, b"{"))


def raw_items(raw: bytes) -> list[bytes]:
    """The same for the items of an array."""
    return [item for _, item in _children(raw, b"[")]


def exact_as_double(value: JsonValue) -> bool:
    """Whether every number survives being re-encoded through an IEEE double.

    Integers always do: encoders write them digit by digit.
    """
    match value:
        case Decimal():
            return Decimal(repr(float(value))) == value
        case list():
            return all(exact_as_double(item) for item in value)
        case dict():
            return all(exact_as_double(item) for item in value.values())
        case _:
            return True


def _depth(raw: bytes) -> int:
    brackets = _STRING.sub(b"", raw).translate(None, delete=_NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        reason = f"has a number of more than {MAX_DIGITS} digits"
        raise JsonRefused(reason)
    return int(text)


def _decimal(text: str) -> Decimal:
    mantissa, _, exponent = text.lower().partition("e")
    if sum(map(str.isdigit, mantissa)) > MAX_DIGITS or len(exponent) > MAX_DIGITS:
        reason = f"has a number of more than {MAX_DIGITS} digits"
        raise JsonRefused(reason)
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        reason = f"has a number with an exponent beyond {MAX_EXPONENT}"
        raise JsonRefused(reason)
    return Decimal(text)


def _refuse_constant(_: str) -> NoReturn:
    reason = "has NaN or Infinity, which are not JSON"
    raise JsonRefused(reason)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        reason = "has an object with a duplicate key"
        raise JsonRefused(reason)
    return members


def _write(value: object, quote: Callable[[str], str], depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case int():
            return int.__repr__(value)
        case float() | Decimal():
            return _write_number(value)
        case list() | dict() if depth == 0:
            reason = f"is nested deeper than {MAX_DEPTH} levels"
            raise JsonRefused(reason)
        case list():
            return "[" + ",".join(_write(item, quote, depth - 1) for item in value) + "]"
        case dict():
            members = (
                f"{_write_key(key, quote)}:{_write(item, quote, depth - 1)}"
                for key, item in value.items()
            )
            return "{" + ",".join(members) + "}"
        case _:
            reason = "has a value that is not JSON"
            raise JsonRefused(reason)


def _write_number(value: float | Decimal) -> str:
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if not number.is_finite():
        reason = "has NaN or Infinity, which are not JSON"
        raise JsonRefused(reason)
    return repr(value) if isinstance(value, float) else str(value)


def _write_key(key: object, quote: Callable[[str], str]) -> str:
    if not isinstance(key, str):
        reason = "has a key that is not text"
        raise JsonRefused(reason)
    return quote(key)


def _token(raw: bytes, position: int) -> tuple[int, int]:
    """Where the next token starts and ends; `raw` is known to be well-formed."""
    found = _TOKEN.match(raw, position)
    if found is None:  # pragma: no cover - the document was parsed before
        reason = "ends too early"
        raise JsonRefused(reason)
    return found.span(1)


def _end_of_value(raw: bytes, position: int) -> int:
    depth = 0
    while True:
        start, position = _token(raw, position)
        depth += _STEP.get(raw[start], 0)
        if depth == 0:
            return position


def _children(raw: bytes, bracket: bytes) -> Iterator[tuple[str, bytes]]:
    """Key (empty in an array) and exact bytes of each member of the container that `raw` is."""
    start, end = _token(raw, 0)
    if raw[start:end] != bracket:
        raise LookupError
    while True:
        start, end = _token(raw, end)
        if raw[start] in b"]}":
            return
        if raw[start] == ord(","):
            start, end = _token(raw, end)
        key = ""
        if bracket == b"{":
            key = json.loads(raw[start:end].decode("utf-8"))
            _, colon = _token(raw, end)
            start, _ = _token(raw, colon)
        end = _end_of_value(raw, start)
        yield key, raw[start:end]


def _enter(raw: bytes, position: int, step: str | int) -> int:
    """Where the member `step` of the container at `position` starts."""
    start, position = _token(raw, position)
    if raw[start : start + 1] != (b"{" if isinstance(step, str) else b"["):
        raise LookupError(step)
    index = 0
    while True:
        start, end = _token(raw, position)
        if raw[start] in b"]}":
            raise LookupError(step)
        if raw[start] == ord(","):
            start, end = _token(raw, end)
        if isinstance(step, str):
            key = json.loads(raw[start:end].decode("utf-8"))
            _, value_at = _token(raw, end)  # the colon
            if key == step:
                return value_at
        else:
            value_at = start
            if index == step:
                return value_at
            index += 1
        position = _end_of_value(raw, value_at)
