"""What `interrupt_on` means: entries over defaults, rulings, scope of edits, warnings."""

import time

import pytest
from hango_policy import strict_json
from hango_policy.errors import RuleInvalid
from hango_policy.rules import (
    ALL_DECISIONS,
    DEFAULT_RULES,
    MISSING,
    Decision,
    Gated,
    InterruptOn,
    NotGated,
    Ruling,
    WarningKind,
    effective,
    in_scope,
    inherit,
    judge,
    matches_glob,
    parse_interrupt_on,
    warnings,
)
from hango_policy.strict_json import JsonValue
from hypothesis import given
from hypothesis import strategies as st

TOOLS = ("write_file", "edit_file", "delete_file", "read_file", "bank__pay", "bank__balance")
SOURCES = {tool: "bank" if tool.startswith("bank__") else "builtin" for tool in TOOLS}
IN_MEMORY: JsonValue = {"path": "/memories/x"}
ELSEWHERE: JsonValue = {"path": "/tmp/x"}
BIG: JsonValue = {"arg": "amount", "gt": 100}


def parsed(source: object) -> InterruptOn:
    return parse_interrupt_on(source, known_tools=TOOLS)


def ruling(source: object, tool: str, arguments: JsonValue) -> Ruling:
    return judge(effective(parsed(source), TOOLS, SOURCES)[tool], arguments)


def gated(source: object, tool: str, arguments: JsonValue) -> Gated:
    result = ruling(source, tool, arguments)
    assert isinstance(result, Gated)
    return result


@pytest.mark.parametrize("tool", ["write_file", "edit_file", "delete_file"])
@pytest.mark.parametrize(
    ("path", "is_gated"),
    [
        ("/memories/x", True),
        ("//memories/x", True),
        ("/a/../memories/x", True),
        ("memories/x", True),
        ("/memories", True),
        ("/MEMORIES/x", True),
        ("/skills/deploy.md", True),
        ("/mem\u200bories/x", True),
        (7, True),
        (None, True),
        (MISSING, True),
        ("/tmp/x", False),
        ("notes.md", False),
        ("/memories/../x", False),
    ],
)
def test_defaults_cover_every_writing_builtin(tool: str, path: object, is_gated: bool) -> None:
    arguments: JsonValue = {} if path is MISSING else {"path": path}  # type: ignore[dict-item]
    result = ruling({}, tool, arguments)
    assert isinstance(result, Gated) is is_gated
    if isinstance(result, Gated):
        assert result.allowed == ALL_DECISIONS
        assert result.rule["source"] == "default"
        assert result.rule["entry"] == tool


def test_reading_is_free_by_default() -> None:
    assert ruling({}, "read_file", IN_MEMORY) == NotGated()


def test_defaults_never_apply_to_a_tool_servers_tool() -> None:
    rules = effective(InterruptOn(), ["write_file"], {"write_file": "files"})
    assert judge(rules["write_file"], IN_MEMORY) == NotGated()


@pytest.mark.parametrize(
    ("source", "tool", "arguments", "allowed"),
    [
        ({"bank__pay": True}, "bank__pay", {}, "approve edit reject respond"),
        ({"bank__pay": False}, "bank__pay", {}, None),
        ({"bank__pay": {}}, "bank__pay", {}, "approve edit reject respond"),
        ({"bank__pay": {"when": BIG}}, "bank__pay", {"amount": 101}, "approve edit reject respond"),
        ({"bank__pay": {"when": BIG}}, "bank__pay", {"amount": 100}, None),
        ({"bank__pay": {"when": BIG}}, "bank__pay", {"amount": "1"}, "approve edit reject respond"),
        ({"bank__pay": {"when": BIG}}, "bank__pay", {}, "approve edit reject respond"),
        ({"bank__pay": {"when": BIG}}, "bank__pay", None, "approve edit reject respond"),
        ({"bank__pay": {"allowed_decisions": ["reject"]}}, "bank__pay", {}, "reject"),
        # the exact name stands alone
        ({"bank__pay": False, "*": True}, "bank__pay", {}, None),
        ({"write_file": False}, "write_file", IN_MEMORY, None),
        ({"write_file": False, "*": True}, "write_file", IN_MEMORY, None),
        ({"write_file": {"when": BIG}}, "write_file", {"amount": 1, **IN_MEMORY}, None),  # type: ignore[dict-item]
        ({"write_file": True}, "write_file", ELSEWHERE, "approve edit reject respond"),
        # globs: the longest one; it adds a gate and never weakens a default
        ({"*": True}, "read_file", {}, "approve edit reject respond"),
        ({"*": True, "bank__*": False}, "bank__pay", {}, None),
        ({"*": False, "bank__*": True}, "bank__pay", {}, "approve edit reject respond"),
        ({"*": {"allowed_decisions": ["approve"]}, "bank__*": {"allowed_decisions": ["reject"]}},
         "bank__pay", {}, "reject"),
        ({"*": False}, "write_file", IN_MEMORY, "approve edit reject respond"),
        ({"*_file": {"when": BIG}}, "write_file", {"amount": 1, "path": "/memories/x"},
         "approve edit reject respond"),
        ({"*": {"allowed_decisions": ["reject"]}}, "write_file", IN_MEMORY, "reject"),
        ({"*": {"allowed_decisions": ["reject"]}}, "write_file", ELSEWHERE, "reject"),
        ({"*": {"allowed_decisions": ["reject"], "when": BIG}}, "write_file",
         {"amount": 1, "path": "/memories/x"}, "approve edit reject respond"),
        ({"*": {"allowed_decisions": ["reject"], "when": BIG}}, "write_file",
         {"amount": 101, "path": "/tmp/x"}, "reject"),
        ({"*": {"allowed_decisions": ["reject"], "when": BIG}}, "write_file",
         {"amount": 1, "path": "/tmp/x"}, None),
    ],
)  # fmt: skip
def test_the_effective_rule(
    source: JsonValue, tool: str, arguments: JsonValue, allowed: str | None
) -> None:
    result = ruling(source, tool, arguments)
    if allowed is None:
        assert result == NotGated()
    else:
        assert isinstance(result, Gated)
        assert result.allowed == tuple(Decision(word) for word in allowed.split())
        assert result.rule["allowed_decisions"] == allowed.split()


def test_globs_of_one_length_do_not_depend_on_their_order() -> None:
    one, other = {"bank__*": True, "*k__pay": False}, {"*k__pay": False, "bank__*": True}
    assert ruling(one, "bank__pay", {}) == ruling(other, "bank__pay", {})


def test_an_edit_must_stay_within_the_rule_that_fired() -> None:
    rule = gated({"bank__pay": {"when": BIG}}, "bank__pay", {"amount": 500}).rule
    assert in_scope(rule, {"amount": 200})
    assert not in_scope(rule, {"amount": 50})
    assert not in_scope(rule, {"amount": "200"})
    assert not in_scope(rule, {})


def test_a_rule_without_a_clause_allows_any_edit() -> None:
    assert in_scope(gated({"bank__pay": True}, "bank__pay", {}).rule, {"amount": 1})


def test_a_call_gated_for_being_unknown_may_only_be_edited_into_the_rule() -> None:
    rule = gated({}, "write_file", {"path": "/a/%2e%2e/memories"}).rule
    assert in_scope(rule, {"path": "/memories/x"})
    assert not in_scope(rule, {"path": "/tmp/x"})
    assert not in_scope(rule, {"path": "/a/%2e%2e/memories"})


def test_where_glob_and_default_fired_an_edit_may_keep_to_either() -> None:
    rule = gated({"*": {"when": BIG}}, "write_file", {"amount": 500, "path": "/memories/x"}).rule
    assert (rule["source"], rule["entry"]) == ("both", "*")
    assert in_scope(rule, {"amount": 1, "path": "/memories/y"})
    assert in_scope(rule, {"amount": 101, "path": "/tmp/y"})
    assert not in_scope(rule, {"amount": 1, "path": "/tmp/y"})
    assert in_scope(gated({"*": True}, "write_file", IN_MEMORY).rule, ELSEWHERE)


@pytest.mark.parametrize("stored", [None, True, [], {}, {"when": {"arg": "a"}}, {"when": "x"}])
def test_a_stored_rule_that_cannot_be_read_allows_no_edit(stored: JsonValue) -> None:
    assert not in_scope(stored, {"a": 1})


@given(st.sampled_from([{}, {"*": True}, {"*_file": {"when": BIG}}, {"write_file": {"when": BIG}}]))
def test_stored_rules_survive_json(source: JsonValue) -> None:
    rule = gated(source, "write_file", {"amount": 101, "path": "/memories/x"}).rule
    again = strict_json.parse(strict_json.dumps(rule))
    assert again == rule
    assert in_scope(again, {"amount": 101, "path": "/memories/x"})


def test_every_fault_of_the_rules_is_named_at_once() -> None:
    source: JsonValue = {
        "bank__pya": True,
        "a/b~c": True,
        "read_file": None,
        "write_file": 1,
        "edit_file": {"allowed_decision": ["approve"], "when": {"arg": "x"}},
        "delete_file": {"allowed_decisions": []},
        "bank__pay": {"allowed_decisions": ["approve", "aprove", 1]},
        "bank__balance": {"allowed_decisions": "approve", "when": None},
        "nothing__*": True,
        "bank__?ay": True,
    }
    with pytest.raises(RuleInvalid) as invalid:
        parsed(source)
    assert [violation.pointer for violation in invalid.value.violations] == [
        "/interrupt_on/bank__pya",
        "/interrupt_on/a~1b~0c",
        "/interrupt_on/read_file",
        "/interrupt_on/write_file",
        "/interrupt_on/edit_file/allowed_decision",
        "/interrupt_on/edit_file/when",
        "/interrupt_on/delete_file/allowed_decisions",
        "/interrupt_on/bank__pay/allowed_decisions/1",
        "/interrupt_on/bank__pay/allowed_decisions/2",
        "/interrupt_on/bank__balance/allowed_decisions",
        "/interrupt_on/bank__balance/when",
        "/interrupt_on/bank__?ay",
    ]


@pytest.mark.parametrize("source", [None, [], True, "x"])
def test_rules_are_an_object(source: object) -> None:
    with pytest.raises(RuleInvalid, match="not an object"):
        parsed(source)


def test_a_pointer_may_start_elsewhere() -> None:
    with pytest.raises(RuleInvalid) as invalid:
        parse_interrupt_on({"x": 1}, known_tools=["x"], pointer="/subagents/0/interrupt_on")
    assert invalid.value.violations[0].pointer == "/subagents/0/interrupt_on/x"


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ({}, []),
        ({"write_file": True}, []),
        ({"write_file": {"allowed_decisions": ["approve", "reject"]}}, []),
        ({"write_file": {"when": DEFAULT_RULES["write_file"].when_json}}, []),
        ({"bank__pay": False, "read_file": False}, []),
        ({"*_file": False, "*": {"when": BIG}}, []),
        ({"write_file": False}, [WarningKind.INTERRUPT_REMOVED]),
        ({"delete_file": {"when": BIG}}, [WarningKind.INTERRUPT_LOOSENED]),
        ({"banc__*": True}, [WarningKind.GLOB_MATCHES_NOTHING]),
        (
            {"edit_file": False, "nope*": True, "write_file": {"when": BIG}},
            [
                WarningKind.INTERRUPT_REMOVED,
                WarningKind.GLOB_MATCHES_NOTHING,
                WarningKind.INTERRUPT_LOOSENED,
            ],
        ),
    ],
)
def test_warnings(source: dict[str, JsonValue], kinds: list[WarningKind]) -> None:
    found = warnings(parsed(source), TOOLS)
    assert [warning.kind for warning in found] == kinds
    assert all(warning.pointer == f"/interrupt_on/{warning.entry}" for warning in found)
    assert {warning.entry for warning in found} <= source.keys()


def test_a_subagent_inherits_unless_it_declares() -> None:
    parent = parsed({"bank__pay": True, "write_file": False})
    inherited = inherit(parent, MISSING, known_tools=TOOLS)
    assert inherited is parent
    own = inherit(parent, {}, known_tools=TOOLS)
    rules = effective(own, TOOLS, SOURCES)
    assert judge(rules["bank__pay"], {}) == NotGated()
    assert isinstance(judge(rules["write_file"], IN_MEMORY), Gated)
    with pytest.raises(RuleInvalid):
        inherit(parent, None, known_tools=TOOLS)


def test_effective_rules_in_the_notation_of_a_spec() -> None:
    source = {"bank__pay": {"allowed_decisions": ["reject"], "when": BIG}, "edit_file": False}
    shown = {name: rule.as_json() for name, rule in effective(parsed(source), TOOLS).items()}
    four = [decision.value for decision in ALL_DECISIONS]
    assert shown == {
        "write_file": {
            "allowed_decisions": four,
            "when": DEFAULT_RULES["write_file"].when_json,
        },
        "edit_file": False,
        "delete_file": {
            "allowed_decisions": four,
            "when": DEFAULT_RULES["delete_file"].when_json,
        },
        "read_file": False,
        "bank__pay": {"allowed_decisions": ["reject"], "when": BIG},
        "bank__balance": False,
    }
    assert parsed(shown).entries.keys() == set(TOOLS)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "", True),
        ("*", "a", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("bank__*", "bank__pay", True),
        ("bank__*", "bank__", True),
        ("bank__*", "Bank__pay", False),
        ("bank__*", "xbank__pay", False),
        ("*_file", "write_file", True),
        ("a*a", "a", False),
        ("a*b*c", "aXbXc", True),
        ("a*b*c", "aXcXb", False),
        ("**", "x", True),
        ("[a]*", "a", False),
        ("?*", "ab", False),
        ("a.*", "axx", False),
    ],
)
def test_globs(pattern: str, name: str, matches: bool) -> None:
    assert matches_glob(pattern, name) is matches


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_globs_agree_with_their_definition(pattern: str, name: str) -> None:
    def by_definition(left: str, right: str) -> bool:
        if not left:
            return not right
        if left[0] == "*":
            return any(by_definition(left[1:], right[i:]) for i in range(len(right) + 1))
        return right[:1] == left[0] and by_definition(left[1:], right[1:])

    assert matches_glob(pattern, name) is by_definition(pattern, name)


def test_globs_are_quick() -> None:
    started = time.process_time()
    assert not matches_glob("*a" * 1_000 + "*b", "a" * 2_000)
    assert time.process_time() - started < 0.5
