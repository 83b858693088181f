"""Hostile schemas are refused when registered; accepted ones judge exactly and say little."""

import contextlib
import socket
import time
from collections.abc import Callable
from decimal import Decimal

import pytest
from hango_policy import schemas, strict_json
from hango_policy.errors import SchemaRefused, Violation
from hango_policy.schemas import compile_schema
from hango_policy.strict_json import JsonValue
from hypothesis import given
from hypothesis import strategies as st

SECRET = "hunter2-hunter2"
NOT_TEXT = "has an unpaired surrogate, which is not text"


def doubling(levels: int, step: Callable[[str], JsonValue]) -> dict[str, JsonValue]:
    definitions: dict[str, JsonValue] = {
        f"a{level}": step(f"#/$defs/a{level + 1}") for level in range(levels)
    }
    definitions[f"a{levels}"] = {"type": "string"}
    return {"$ref": "#/$defs/a0", "$defs": definitions}


def nested(levels: int) -> JsonValue:
    schema: JsonValue = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


HOSTILE: dict[str, JsonValue] = {
    "backtracking": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "backtracking key": {"patternProperties": {"^(a|a)*$": {}}},
    "lookahead": {"pattern": "(?=a)b"},
    "back reference": {"pattern": r"(a)\1"},
    "huge pattern": {"pattern": "(a{1000}){1000}"},
    "slow linear pattern": {"pattern": r"([ab]{1,100}){50}c"},
    "many patterns": {"allOf": [{"pattern": f"a{n}"} for n in range(200)]},
    "doubling": doubling(30, lambda r: {"allOf": [{"$ref": r}, {"$ref": r}]}),
    "doubling any": doubling(30, lambda r: {"anyOf": [{"$ref": r}, {"$ref": r}]}),
    "doubling not": doubling(30, lambda r: {"not": {"$ref": r}, "if": {"$ref": r}}),
    "doubling members": doubling(
        30, lambda r: {"properties": {"l": {"$ref": r}, "r": {"$ref": r}}}
    ),
    "doubling items": doubling(
        30, lambda r: {"items": {"allOf": [{"$ref": r}, {"$ref": r}]}}
    ),
    "doubling unevaluated": doubling(
        30, lambda r: {"allOf": [{"$ref": r}], "unevaluatedProperties": False}
    ),
    "wide doubling": doubling(5, lambda r: {"allOf": [{"$ref": r}] * 5}),
    "remote": {"$ref": "http://127.0.0.1:9/schema.json"},
    "remote https": {"properties": {"a": {"items": {"$ref": "https://example.com/x"}}}},
    "file": {"$defs": {"x": {"$ref": "file:///etc/passwd"}}},
    "relative": {"$ref": "other.json"},
    "relative with fragment": {"$ref": "other.json#/a"},
    "anchor": {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
    "ref not text": {"$ref": 1},
    "dangling": {"$ref": "#/$defs/none"},
    "ref into data": {"$ref": "#/const", "const": {"$ref": "http://127.0.0.1:9/"}},
    "ref into unknown": {"$ref": "#/x-a", "x-a": {"$ref": "http://127.0.0.1:9/"}},
    "dynamic": {"$dynamicRef": "#x"},
    "recursive": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveRef": "#",
    },
    "inner id": {"properties": {"a": {"$id": "http://example.com/"}}},
    "inner dialect": {"$defs": {"a": {"$schema": "http://127.0.0.1:9/"}}},
    "unknown dialect": {"$schema": "http://127.0.0.1:9/schema"},
    "circle": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "self": {"$ref": "#"},
    "too long": {"description": "x" * 70_000},
    "too deep": nested(60),
    "much too deep": nested(5_000),
    "too many": {"properties": {f"p{n}": {} for n in range(4_000)}},
    "wrong type": {"type": "nonsense"},
    "wrong shape": {"properties": []},
    "not unique": {"required": ["a"] * 5_000},
    "not unique, mixed": {"required": [1, {}] * 3_000},
    "surrogate": {"enum": ["\ud800"]},
    "not json": {"maximum": float("nan")},
    "list": [],
    "boolean": True,
}  # fmt: skip


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a schema made a request")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("schema", list(HOSTILE.values()), ids=list(HOSTILE))
def test_hostile_schemas_are_refused_in_no_time(schema: JsonValue) -> None:
    compile_schema({"type": "object"})  # the metaschemas are loaded once
    started = time.process_time()
    with pytest.raises(SchemaRefused):
        compile_schema(schema)
    assert time.process_time() - started < 0.05


def test_a_listener_hears_nothing() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        host, port = server.getsockname()
        for key in ("$ref", "$id", "$schema", "$dynamicRef"):
            with contextlib.suppress(SchemaRefused):
                compile_schema({"properties": {"a": {key: f"http://{host}:{port}/x"}}})
            with contextlib.suppress(SchemaRefused):
                compile_schema({key: f"http://{host}:{port}/x"})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"$schema": "http://json-schema.org/draft-06/schema", "type": "object"},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object"},
        {"$id": "https://example.com/tool.json", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"properties": {"p": {"type": "string"}, "q": {"$ref": "#/properties/p"}}},
        {"$defs": {"a/b ~%": {}}, "$ref": "#/$defs/a~1b%20~0%25"},
        {"definitions": {"node": {"properties": {"next": {"$ref": "#/definitions/node"}}}}},
        {"default": {"$ref": "http://127.0.0.1:9/"}, "examples": [{"$id": 1}]},
        doubling(6, lambda r: {"allOf": [{"$ref": r}, {"$ref": r}]}),
        nested(39),
        {"pattern": "^.{1,255}$"},
        {"additionalProperties": False, "properties": {"a": True}},
    ],
)
def test_ordinary_schemas_are_accepted(schema: JsonValue) -> None:
    assert isinstance(compile_schema(schema), schemas.CompiledSchema)


def test_an_identity_gives_references_no_other_meaning() -> None:
    schema: JsonValue = {
        "$id": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/a",
        "$defs": {"a": {"type": "integer"}},
    }
    assert compile_schema(schema).violations("x") == [Violation("", "is not of type integer")]


def chain(key: str, length: int) -> JsonValue:
    instance: JsonValue = {}
    for _ in range(length):
        instance = {key: instance}
    return instance


def test_recursive_schemas_bound_the_depth_of_what_they_judge() -> None:
    tree = compile_schema(
        {
            "type": "object",
            "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
            "additionalProperties": False,
        }
    )
    assert tree.violations(chain("left", 60)) == []
    twice = compile_schema({"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}})
    assert twice.violations(chain("x", 5)) == []
    started = time.process_time()
    assert twice.violations(chain("x", 60)) == [
        Violation("", "is nested too deeply for the schema")
    ]
    assert time.process_time() - started < 0.1


PAY = compile_schema(
    {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": Decimal("0.1")},
            "count": {"type": "integer", "maximum": 9007199254740992},
            "to": {"type": ["string", "null"], "pattern": "^[a-z]+$", "maxLength": 3},
            "currency": {"enum": ["EUR"]},
            "items": {
                "type": "array",
                "items": {"type": "object", "required": ["a/b"]},
                "uniqueItems": True,
            },
        },
        "required": ["amount"],
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize(
    ("raw", "violations"),
    [
        (b'{"amount": 0.1}', []),
        (b'{"amount": 0.1, "count": 1.0}', []),
        (b'{"amount": 0.1, "count": 9007199254740992}', []),
        (b'{"amount": 0.10000000000000000001}', [("/amount", "must be at most 0.1")]),
        (b'{"amount": 1e400}', [("/amount", "must be at most 0.1")]),
        (b'{"amount": -1e-400}', [("/amount", "must be greater than 0")]),
        (b'{"amount": "1"}', [("/amount", "is not of type number")]),
        (b'{"amount": true}', [("/amount", "is not of type number")]),
        (
            b'{"amount": 0.1, "count": 9007199254740993}',
            [("/count", "must be at most 9007199254740992")],
        ),
        (b'{"amount": 0.1, "count": 1.5}', [("/count", "is not of type integer")]),
        (b"{}", [("/amount", "is required")]),
        (b"[]", [("", "is not of type object")]),
        (b"null", [("", "is not of type object")]),
        (
            b'{"amount": 0.1, "x/y": 1, "z": 2}',
            [("/x~1y", "is not allowed here"), ("/z", "is not allowed here")],
        ),
        (
            b'{"amount": 0.1, "to": "ABCD"}',
            [
                ("/to", "does not match the required pattern"),
                ("/to", "must have at most 3 characters"),
            ],
        ),
        (b'{"amount": 0.1, "to": 1}', [("/to", "is not of type null or string")]),
        (b'{"amount": 0.1, "currency": "X"}', [("/currency", "is not one of the allowed values")]),
        (b'{"amount": 0.1, "items": [{"a/b": 1}, {}]}', [("/items/1/a~1b", "is required")]),
        (
            b'{"amount": 0.1, "items": [{"a/b": 1}, {"a/b": 1.0}]}',
            [("/items", "has items that are equal")],
        ),
        (b'{"amount": 0.1, "to": "\\u0000"}', [("/to", "does not match the required pattern")]),
        (b'{"amount": 0.1, "to": "\\ud800"}', [("", NOT_TEXT)]),
        (b'{"amount": 0.1, "\\udc00": 1}', [("", NOT_TEXT)]),
    ],
)
def test_violations(raw: bytes, violations: list[tuple[str, str]]) -> None:
    expected = [Violation(f"/d/0/args{pointer}", message) for pointer, message in violations]
    found = PAY.violations(strict_json.parse(raw), "/d/0/args")
    assert sorted(found, key=repr) == sorted(expected, key=repr)


BREAKING: list[tuple[dict[str, JsonValue], JsonValue, str]] = [
    ({"type": "integer"}, SECRET, ""),
    ({"const": 1}, SECRET, ""),
    ({"enum": [1]}, SECRET, ""),
    ({"maxLength": 1}, SECRET, ""),
    ({"minLength": 100}, SECRET, ""),
    ({"pattern": "^x$"}, SECRET, ""),
    ({"anyOf": [{"type": "integer"}, {"const": 2}]}, SECRET, ""),
    ({"oneOf": [True, True]}, SECRET, ""),
    ({"oneOf": [False]}, SECRET, ""),
    ({"not": {}}, SECRET, ""),
    ({"allOf": [False]}, SECRET, ""),
    ({"if": {}, "then": False}, SECRET, ""),
    ({"items": False}, [SECRET], "/0"),
    ({"maxItems": 0}, [SECRET], ""),
    ({"minItems": 2}, [SECRET], ""),
    ({"contains": {"type": "null"}}, [SECRET], ""),
    ({"uniqueItems": True}, [SECRET, SECRET], ""),
    ({"unevaluatedItems": False}, [SECRET], ""),
    ({"minProperties": 2}, {"a": SECRET}, ""),
    ({"maxProperties": 0}, {"a": SECRET}, ""),
    ({"additionalProperties": False}, {"a": SECRET}, ""),
    ({"unevaluatedProperties": False}, {"a": SECRET}, "/a"),
    ({"properties": {"a": False}}, {"a": SECRET}, "/a"),
    ({"propertyNames": {"maxLength": 2}}, {SECRET: 1}, ""),
    ({"dependentRequired": {"a": ["b"]}}, {"a": SECRET}, "/b"),
    ({"multipleOf": 2}, 7919, ""),
    ({"maximum": 1}, 7919, ""),
    ({"minimum": 9999}, 7919, ""),
]


@pytest.mark.parametrize(("schema", "instance", "pointer"), BREAKING)
def test_messages_never_repeat_a_value(
    schema: dict[str, JsonValue], instance: JsonValue, pointer: str
) -> None:
    found = compile_schema(schema).violations(instance)
    assert found
    assert found[0].pointer == pointer
    for violation in found:
        assert SECRET not in violation.message
        assert "7919" not in violation.message
        assert violation.message != "does not satisfy the schema"


def test_a_flood_of_violations_is_cut_short() -> None:
    schema = compile_schema({"items": {"type": "integer"}})
    assert len(schema.violations(["x"] * 1_000)) == schemas.MAX_VIOLATIONS
    started = time.process_time()
    assert schema.violations(["x"] * 60_000) == [Violation("/0", "is not of type integer")]
    assert time.process_time() - started < 0.2


def test_a_violation_found_twice_is_told_once() -> None:
    schema = compile_schema(doubling(6, lambda r: {"allOf": [{"$ref": r}, {"$ref": r}]}))
    assert schema.violations(1) == [Violation("", "is not of type string")]


def test_long_text_against_a_demanding_pattern_takes_linear_time() -> None:
    schema = compile_schema({"pattern": r"^(\w{1,30}-){9}$"})
    started = time.process_time()
    assert schema.violations("ab" * 120_000)
    assert time.process_time() - started < 1


def test_compiling_again_is_a_lookup() -> None:
    assert compile_schema({"minimum": 17}) is compile_schema({"minimum": 17})
    assert compile_schema({"minimum": 17}) is not compile_schema({"minimum": 18})


@given(st.integers(min_value=-(10**300), max_value=10**300), st.integers(-2, 2))
def test_integers_are_compared_exactly(limit: int, offset: int) -> None:
    schema = compile_schema({"maximum": limit})
    assert bool(schema.violations(limit + offset)) is (offset > 0)


@given(st.integers(min_value=0, max_value=2**53 - 1), st.integers(min_value=1, max_value=9**20))
def test_fractions_are_compared_exactly(limit: int, fraction: int) -> None:
    schema = compile_schema({"maximum": limit, "minimum": -limit})
    assert schema.violations(Decimal(f"{limit}.{fraction}"))
    assert schema.violations(Decimal(f"-{limit}.{fraction}"))
    fractional = compile_schema({"maximum": Decimal(f"{limit}.{fraction}")})
    assert not fractional.violations(limit)
    assert fractional.violations(limit + 1)
    assert fractional.violations(2**70)


@given(st.integers(min_value=-(10**300), max_value=10**300))
def test_a_whole_number_may_be_written_as_a_fraction(number: int) -> None:
    schema = compile_schema({"const": number, "type": "integer"})
    assert not schema.violations(Decimal(f"{number}.0"))
    assert schema.violations(Decimal(f"{number + 1}.0"))


def test_fractions_that_could_not_be_compared_are_refused() -> None:
    assert compile_schema({}).violations(Decimal("9007199254740991.5")) == []
    assert [v.message for v in compile_schema({}).violations([Decimal("9007199254740993.5")])] == [
        "has a fraction that is too large to be compared exactly"
    ]
    with pytest.raises(SchemaRefused, match="fraction"):
        compile_schema({"maximum": Decimal("18446744073709551616.5")})
