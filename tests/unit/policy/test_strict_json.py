"""JSON keeps every digit, refuses every ambiguity, and never takes long."""

import json
import time
from decimal import Decimal

import pytest
from hango_policy import strict_json
from hango_policy.errors import JsonRefused
from hango_policy.strict_json import JsonValue
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(
    ["\ud800", "\udfff", "\x00", '"', "\\", "{", "]", "a\u202eb", "é", "😀"]
)
# A high surrogate followed by a low one is one character to JSON, so that such a pair of lone
# surrogates cannot be told from it.
SAFE_TEXT = TEXT.filter(lambda text: json.loads(json.dumps(text)) == text)
NUMBERS = (
    st.integers()
    | st.integers(min_value=-(10**399), max_value=10**399)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9)
    | st.sampled_from([Decimal("1e400"), Decimal("1E-400"), Decimal("1.10"), Decimal("-0.0")])
)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | NUMBERS | SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: JsonValue) -> None:
    raw = strict_json.dumps(value)
    assert raw.isascii()
    assert strict_json.parse(raw) == value
    assert strict_json.dumps(strict_json.parse(raw)) == raw or b"E" in raw or b"-0" in raw


@given(st.text() | st.binary())
def test_parse_agrees_with_json_or_refuses(source: str | bytes) -> None:
    raw = source.encode() if isinstance(source, str) else source
    try:
        strict_json.parse(raw)
    except JsonRefused:
        return
    json.loads(raw.decode())


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"9007199254740993", 9007199254740993),
        (b"-0", 0),
        (b"1" * 400, int("1" * 400)),
        (b"1e400", Decimal("1e400")),
        (b"1.10", Decimal("1.10")),
        (b"0.1", Decimal("0.1")),
        (b'"\\ud800"', "\ud800"),
        (b'"\\u0000"', "\x00"),
        (b'"\\ud83d\\ude00"', "😀"),
        ("é".join('""').encode(), "é"),
        (b" [1 , {}]\n", [1, {}]),
        (b'["[[["]', ["[[["]),
    ],
)
def test_exact_values(raw: bytes, value: JsonValue) -> None:
    parsed = strict_json.parse(raw)
    assert parsed == value
    assert type(parsed) is type(value)


def test_digits_are_kept_as_written() -> None:
    assert strict_json.dumps(strict_json.parse(b'{"a": 1.10, "b": 100000000000000000000.5}')) == (
        b'{"a":1.10,"b":100000000000000000000.5}'
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "well-formed"),
        (b"1 2", "well-formed"),
        (b"[1,]", "well-formed"),
        (b"]]][[[", "well-formed"),
        (b'"open', "well-formed"),
        (b'"\n"', "well-formed"),
        (b"\xef\xbb\xbf1", "well-formed"),
        (b"01", "well-formed"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "NaN"),
        (b'{"a":1,"\\u0061":2}', "duplicate"),
        (b'[{"x":{"":1,"":1}}]', "duplicate"),
        (b'"\xff"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        ("1".encode("utf-16"), "UTF-8"),
        (b"1" * 401, "digits"),
        (b"-0." + b"1" * 400, "digits"),
        (b"1e401", "exponent"),
        (b"1E-401", "exponent"),
        (b"1e99999999999999999999", "exponent"),
        (b"[" * 65 + b"]" * 65, "deeper"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper"),
    ],
)
def test_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(JsonRefused, match=reason):
        strict_json.parse(raw)


def test_sixty_four_levels_are_read_and_written() -> None:
    raw = b"[" * 64 + b"]" * 64
    assert strict_json.dumps(strict_json.parse(raw)) == raw


def test_size_is_bounded() -> None:
    raw = b'"' + b"x" * (strict_json.MAX_CALL_BYTES - 2) + b'"'
    assert strict_json.parse(raw)
    with pytest.raises(JsonRefused, match="longer"):
        strict_json.parse(raw + b" ")
    assert strict_json.parse(raw + b" ", max_bytes=strict_json.MAX_BATCH_BYTES)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 1_000_000,
        b"[" + b"[]," * 300_000 + b"1]",
        b'"' + b'\\"' * 500_000,
        b'"' * 1_000_000,
        b"9" * 1_000_000,
        b"1e" + b"9" * 1_000_000,
        b'"\\' * 300_000,
    ],
    ids=["deep", "wide", "escapes", "quotes", "digits", "exponent", "half"],
)
def test_a_megabyte_of_anything_is_read_or_refused_quickly(raw: bytes) -> None:
    started = time.process_time()
    try:
        strict_json.parse(raw, max_bytes=2 * strict_json.MAX_BATCH_BYTES)
    except JsonRefused as error:
        assert len(error.reason) < 100  # noqa: PT017 - either way of ending is fine
    assert time.process_time() - started < 1


def test_refusals_do_not_repeat_the_text() -> None:
    for raw in (b'{"secret":1,"secret":2}', b'["secret"', b'"secret\xff"'):
        with pytest.raises(JsonRefused) as refused:
            strict_json.parse(raw)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("NaN"), {1: 2}, object(), {"a": b"x"}]
)
def test_what_is_not_json_is_not_written(value: object) -> None:
    with pytest.raises(JsonRefused):
        strict_json.dumps(value)  # type: ignore[arg-type]  # on purpose


def test_deep_values_are_not_written() -> None:
    value: JsonValue = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(JsonRefused, match="deeper"):
        strict_json.dumps(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 2),
        ("é", 4),
        ("😀", 6),
        ("\ud800", 5),
        ("\n", 4),
        ([1, 2], 5),
        ({"a": None}, 10),
        (Decimal("1.10"), 4),
        (0.5, 3),
    ],
)
def test_size_is_that_of_the_compact_utf8_text(value: JsonValue, size: int) -> None:
    assert strict_json.utf8_size(value) == size


@pytest.mark.parametrize(
    ("raw", "exact"),
    [
        (b"9007199254740993", True),
        (b"1" * 400, True),
        (b"0.1", True),
        (b"1.0", True),
        (b"1e22", True),
        (b"-0.0", True),
        (b"9007199254740993.0", False),
        (b"0.10000000000000000001", False),
        (b"1e400", False),
        (b"1e-400", False),
        (b'{"a":[true,null,"1e400",{"b":1e400}]}', False),
        (b'{"a":[true,null,"1e400",{"b":0.5}]}', True),
    ],
)
def test_exact_as_double(raw: bytes, exact: bool) -> None:
    assert strict_json.exact_as_double(strict_json.parse(raw)) is exact


@given(VALUES, VALUES, SAFE_TEXT, st.text(" \t\n\r", max_size=3), st.booleans())
def test_raw_slice_cuts_exactly(
    value: JsonValue, other: JsonValue, key: str, space: str, first: bool
) -> None:
    gap = space.encode()
    wanted = strict_json.dumps(value)
    name, other_name = strict_json.dumps(key), strict_json.dumps(key + "x")
    members = [(name, wanted), (other_name, strict_json.dumps(other))]
    if not first:
        members.reverse()
    body = (gap + b"," + gap).join(gap + k + gap + b":" + gap + v + gap for k, v in members)
    raw = b'{"d":' + gap + b"[[]," + gap + b"{" + body + b"}" + gap + b"]}"
    assert strict_json.raw_slice(raw, ("d", 1, key)) == wanted


def test_raw_slice_keeps_what_json_would_change() -> None:
    raw = b'{"decisions": [{"\\u0061rgs" : { "n":1.0e2 , "s":"\\u0041\\/}" } }]}'
    assert (
        strict_json.raw_slice(raw, ("decisions", 0, "args")) == b'{ "n":1.0e2 , "s":"\\u0041\\/}" }'
    )
    assert strict_json.raw_slice(raw, ()) == raw
    assert strict_json.raw_slice(raw, ("decisions", 0, "args", "n")) == b"1.0e2"


def test_raw_members_cuts_exactly() -> None:
    raw = b' { "a" : 1.0e2 , "b\\u0041":{ "x":[1, 2] }, "c":"}," } '
    wanted = {"a": b"1.0e2", "bA": b'{ "x":[1, 2] }', "c": b'"},"'}
    assert strict_json.raw_members(raw) == wanted
    assert strict_json.raw_members(b" {} ") == {}


def test_raw_items_cuts_exactly() -> None:
    raw = b' [1e400 ,"]", [ 2 ],{"a":[]}]'
    assert strict_json.raw_items(raw) == [b"1e400", b'"]"', b"[ 2 ]", b'{"a":[]}']
    assert strict_json.raw_items(b"[ ]") == []


@pytest.mark.parametrize("raw", [b"1", b'"{}"', b"[]", b"null"])
def test_raw_members_of_what_has_none(raw: bytes) -> None:
    with pytest.raises(LookupError):
        strict_json.raw_members(raw)
    with pytest.raises(LookupError):
        strict_json.raw_items(raw.replace(b"[]", b"{}"))


def test_raw_slice_allows_the_member_its_own_depth() -> None:
    args = b"[" * 64 + b"]" * 64
    raw = b'{"decisions":[{"args":' + args + b"}]}"
    assert strict_json.raw_slice(raw, ("decisions", 0, "args")) == args


@pytest.mark.parametrize("path", [("b",), ("a", 2), ("a", "0"), (0,), ("a", 0, 0), ("e", "x")])
def test_raw_slice_of_nothing(path: tuple[str | int, ...]) -> None:
    with pytest.raises(LookupError):
        strict_json.raw_slice(b'{"a":[1,2],"e":{}}', path)


@pytest.mark.parametrize("raw", [b'{"a":1,"a":2}', b'{"a":1', b'{"a":1}}', b'{"a":1,"b":NaN}'])
def test_raw_slice_refuses_the_whole_document(raw: bytes) -> None:
    with pytest.raises(JsonRefused):
        strict_json.raw_slice(raw, ("a",))
