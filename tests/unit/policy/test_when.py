"""The clause language: every operator, three-valued logic, and what a user is told."""

import itertools
from decimal import Decimal

import pytest
from hango_policy.errors import RuleInvalid
from hango_policy.strict_json import JsonValue, parse
from hango_policy.when import (
    MAX_CLAUSE_DEPTH,
    evaluate,
    json_equal,
    parse_stored_when,
    parse_when,
)
from hypothesis import given
from hypothesis import strategies as st

TRUE: JsonValue = {"arg": "yes", "exists": True}
FALSE: JsonValue = {"arg": "yes", "exists": False}
UNKNOWN: JsonValue = {"arg": "missing", "gt": 1}
LITERALS = {True: TRUE, False: FALSE, None: UNKNOWN}
ARGUMENTS: JsonValue = {"yes": 1}

Truth = bool | None


def holds(clause: JsonValue, arguments: JsonValue) -> Truth:
    return evaluate(parse_when(clause), arguments)


def conjunction(left: Truth, right: Truth) -> Truth:
    order = (False, None, True)
    return order[min(order.index(left), order.index(right))]


def disjunction(left: Truth, right: Truth) -> Truth:
    order = (False, None, True)
    return order[max(order.index(left), order.index(right))]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LITERALS, LITERALS)))
def test_three_valued_tables(left: Truth, right: Truth) -> None:
    both: list[JsonValue] = [LITERALS[left], LITERALS[right]]
    assert holds({"all": both}, ARGUMENTS) is conjunction(left, right)
    assert holds({"any": both}, ARGUMENTS) is disjunction(left, right)
    assert holds({"not": LITERALS[left]}, ARGUMENTS) is {True: False, False: True, None: None}[left]


@given(
    st.recursive(
        st.sampled_from([TRUE, FALSE, UNKNOWN]),
        lambda inner: (
            st.fixed_dictionaries({"not": inner})
            | st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)})
            | st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)})
        ),
        max_leaves=8,
    )
)
def test_unknown_says_only_what_either_value_would_say(clause: JsonValue) -> None:
    """A definite result never depends on what an unknown test would have been."""
    result = holds(clause, ARGUMENTS)
    if result is not None:
        for amount in (0, 5):
            assert holds(clause, {"yes": 1, "missing": amount}) is result


@pytest.mark.parametrize(
    ("test", "arguments", "expected"),
    [
        ({"equals": 1}, b'{"a": 1.0}', True),
        ({"equals": 1}, b'{"a": true}', False),
        ({"equals": True}, b'{"a": 1}', False),
        ({"equals": False}, b'{"a": 0}', False),
        ({"equals": None}, b'{"a": null}', True),
        ({"equals": None}, b"{}", None),
        ({"equals": "1"}, b'{"a": 1}', False),
        ({"equals": [1, {"b": True}]}, b'{"a": [1.0, {"b": true}]}', True),
        ({"equals": [1, {"b": True}]}, b'{"a": [1, {"b": 1}]}', False),
        ({"equals": 9007199254740993}, b'{"a": 9007199254740992}', False),
        ({"equals": 0.1}, b'{"a": 0.1}', True),
        ({"equals": 0.1}, b'{"a": 0.1000000000000000055}', False),
        ({"in": ["x", 2]}, b'{"a": 2.0}', True),
        ({"in": ["x", 2]}, b'{"a": "2"}', False),
        ({"in": ["x", 2]}, b'{"b": "x"}', None),
        ({"in": []}, b'{"a": 1}', False),
        ({"prefix": "rm "}, b'{"a": "rm -rf"}', True),
        ({"prefix": "rm "}, b'{"a": "RM -rf"}', False),
        ({"prefix": "rm "}, b'{"a": 1}', None),
        ({"prefix": "rm "}, b'{"a": null}', None),
        ({"gt": 100}, b'{"a": 100.00000000000000000001}', True),
        ({"gt": 100}, b'{"a": 100}', False),
        ({"gte": 100}, b'{"a": 100}', True),
        ({"lt": 100}, b'{"a": -1e400}', True),
        ({"lte": 0.1}, b'{"a": 0.1}', True),
        ({"gt": 9007199254740992}, b'{"a": 9007199254740993}', True),
        ({"gt": 0}, b'{"a": true}', None),
        ({"gt": 0}, b'{"a": "5"}', None),
        ({"gt": 0}, b'{"a": null}', None),
        ({"gt": 0}, b"{}", None),
        ({"size_over": 4}, '{"a": "é"}'.encode(), False),
        ({"size_over": 3}, '{"a": "é"}'.encode(), True),
        ({"size_over": 5}, b'{"a": [1,   2]}', False),
        ({"size_over": 0}, b"{}", None),
        ({"size_over": 4}, b'{"a": "\\ud800"}', True),
        ({"exists": True}, b'{"a": null}', True),
        ({"exists": True}, b"{}", False),
        ({"exists": False}, b"{}", True),
        ({"exists": True}, b"[]", False),
    ],
)
def test_operators(test: dict[str, JsonValue], arguments: bytes, expected: Truth) -> None:
    assert holds({"arg": "a", **test}, parse(arguments)) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/memories/x", True),
        ("//memories/x", True),
        ("/a/../memories/x", True),
        ("memories/x", True),
        ("/memories", True),
        ("/tmp/x", False),
        ("/memoriesx", False),
        ("/Memories/x", None),
        ("/../memories/x", None),
        ("/%6demories/x", None),
        ("/memories\\x", None),
        ("", None),
        (7, None),
        (None, None),
        (["/memories/x"], None),
    ],
)
def test_under(path: JsonValue, expected: Truth) -> None:
    clause: JsonValue = {"arg": "path", "under": "/memories/"}
    assert holds(clause, {"path": path}) is expected


def test_letter_case_interrupts_whichever_way_the_rule_is_written() -> None:
    within: JsonValue = {"arg": "path", "under": "/scratch"}
    for clause in (within, {"not": within}):
        assert holds(clause, {"path": "/Scratch/x"}) is None


@pytest.mark.parametrize(
    ("arg", "expected"),
    [
        ("items.0.price", True),
        ("items.1.price", False),
        ("items.2.price", None),
        ("items.00.price", None),
        ("items.-1.price", None),
        ("items.\u0660.price", None),
        ("items.99999999999999999999.price", None),
        ("items.price", None),
        ("by_key.0", True),
        ("items.0.price.x", None),
        ("name.0", None),
    ],
)
def test_dotted_paths(arg: str, expected: Truth) -> None:
    arguments: JsonValue = {
        "items": [{"price": 200}, {"price": 1}],
        "by_key": {"0": 200},
        "name": "text",
    }
    assert holds({"arg": arg, "gt": 100}, arguments) is expected


@pytest.mark.parametrize(
    ("clause", "pointers"),
    [
        (None, ["/when"]),
        ([], ["/when"]),
        ({}, ["/when"]),
        ({"all": [TRUE], "any": [TRUE]}, ["/when"]),
        ({"al": [TRUE]}, ["/when"]),
        ({"all": []}, ["/when/all"]),
        ({"any": TRUE}, ["/when/any"]),
        ({"not": [TRUE]}, ["/when/not"]),
        ({"arg": "a"}, ["/when"]),
        ({"arg": "a", "gt": 1, "lt": 5}, ["/when"]),
        ({"arg": "a", "greater": 1}, ["/when/greater"]),
        ({"arg": "a", "all": []}, ["/when/all"]),
        ({"arg": "", "gt": 1}, ["/when/arg"]),
        ({"arg": "a..b", "gt": 1}, ["/when/arg"]),
        ({"arg": 1, "gt": 1}, ["/when/arg"]),
        ({"arg": "a", "gt": True}, ["/when/gt"]),
        ({"arg": "a", "gt": "1"}, ["/when/gt"]),
        ({"arg": "a", "in": 1}, ["/when/in"]),
        ({"arg": "a", "prefix": 1}, ["/when/prefix"]),
        ({"arg": "a", "under": 1}, ["/when/under"]),
        ({"arg": "a", "under": "/a/../.."}, ["/when/under"]),
        ({"arg": "a", "size_over": -1}, ["/when/size_over"]),
        ({"arg": "a", "size_over": 1.5}, ["/when/size_over"]),
        ({"arg": "a", "exists": 1}, ["/when/exists"]),
        ({"arg": "a", "gt": float("nan")}, ["/when"]),
        ({"arg": "a", "equals": "x" * 20_000}, ["/when"]),
        (
            {"any": [TRUE, {"arg": "a", "gt": "x"}, {"all": [{"not": 1}, {"arg": "b"}]}]},
            ["/when/any/1/gt", "/when/any/2/all/0/not", "/when/any/2/all/1"],
        ),
        ({"arg": 1, "~/x": 1}, ["/when/~0~1x", "/when/arg"]),
    ],
)
def test_every_fault_is_named(clause: JsonValue, pointers: list[str]) -> None:
    with pytest.raises(RuleInvalid) as invalid:
        parse_when(clause)
    assert [violation.pointer for violation in invalid.value.violations] == pointers


def test_depth_is_bounded_and_two_clauses_joined_still_read() -> None:
    clause = TRUE
    for _ in range(MAX_CLAUSE_DEPTH - 1):
        clause = {"not": clause}
    once, twice = parse_when(clause), parse_stored_when({"any": [clause, clause]})
    assert evaluate(once, ARGUMENTS) is evaluate(twice, ARGUMENTS) is not None
    with pytest.raises(RuleInvalid, match="deeply"):
        parse_when({"not": clause})


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, Decimal("1.0"), True),
        (1, 1.0, True),
        (0.1, Decimal("0.1"), True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ("a", "a", True),
        ("1", 1, False),
        (None, False, False),
        (None, None, True),
        ([], {}, False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
    ],
)
def test_json_equality(left: JsonValue, right: JsonValue, equal: bool) -> None:
    assert json_equal(left, right) is equal
    assert json_equal(right, left) is equal
