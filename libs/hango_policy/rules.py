"""Which calls of an agent wait for a human: `interrupt_on`, the defaults below it, the ruling.

`parse_interrupt_on` reads what a user wrote, `effective` lays it over the defaults, `judge` rules
on one call, and `in_scope` tells whether an edited call still is what the rule was about. The
rules are those of the contract, section 4.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from hango_policy.errors import RuleInvalid, Violation, pointer_to
from hango_policy.strict_json import JsonValue
from hango_policy.when import Clause, evaluate, json_equal, parse_stored_when, parse_when

BUILTIN = "builtin"
"""The source of the tools that defaults apply to; every other source is a tool server's name."""


class Decision(StrEnum):
    """What a human may rule on a call."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"


ALL_DECISIONS = tuple(Decision)


class Source(StrEnum):
    """Whose entry gated a call; `BOTH` when a user's glob and the default did."""

    USER = "user"
    DEFAULT = "default"
    BOTH = "both"


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""Stands for an `interrupt_on` that a subagent does not declare; `None` is a declared null."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry that gates: `when` (always, if None), as parsed and as written."""

    source: Source
    entry: str
    allowed: tuple[Decision, ...] = ALL_DECISIONS
    when: Clause | None = None
    when_json: JsonValue = None

    def gates(self, arguments: JsonValue) -> bool:
        """Whether a call with these arguments waits: the clause holds, or cannot be decided."""
        return self.when is None or evaluate(self.when, arguments) is not False

    def as_json(self) -> dict[str, JsonValue]:
        """The rule as it is stored with an approval; `in_scope` reads it back."""
        return {
            "source": self.source.value,
            "entry": self.entry,
            "allowed_decisions": [decision.value for decision in self.allowed],
            "when": self.when_json,
        }


@dataclass(frozen=True, slots=True)
class InterruptOn:
    """A user's entries by exact tool name or glob; None stands for `false`, never."""

    entries: Mapping[str, Rule | None] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class EffectiveRule:
    """What holds for one tool. Neither part: its calls are never gated."""

    tool: str
    user: Rule | None = None
    default: Rule | None = None

    def rules(self) -> list[Rule]:
        """The entries that may gate, the user's first."""
        return [rule for rule in (self.user, self.default) if rule is not None]

    def as_json(self) -> JsonValue:
        """The rule in the notation of an agent spec: `false`, or an object."""
        rules = self.rules()
        if not rules:
            return False
        rule = _joined(rules)
        shown: dict[str, JsonValue] = {"allowed_decisions": [d.value for d in rule.allowed]}
        if rule.when_json is not None:
            shown["when"] = rule.when_json
        return shown


@dataclass(frozen=True, slots=True)
class NotGated:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Gated:
    """The call waits for a human: the stored form of the rule that fired, and what he may do."""

    rule: dict[str, JsonValue]
    allowed: tuple[Decision, ...]


Ruling = NotGated | Gated


class WarningKind(StrEnum):
    """Why an agent that was saved deserves a second look; the first two are audited."""

    INTERRUPT_REMOVED = "interrupt_removed"
    INTERRUPT_LOOSENED = "interrupt_loosened"
    GLOB_MATCHES_NOTHING = "glob_matches_nothing"


@dataclass(frozen=True, slots=True)
class PolicyWarning:
    """A warning about the entry at `pointer`, which names `entry` (a tool or a glob)."""

    kind: WarningKind
    pointer: str
    entry: str
    message: str


_PERSISTENT_FOLDERS: JsonValue = {
    "any": [{"arg": "path", "under": "/memories/"}, {"arg": "path", "under": "/skills/"}]
}
DEFAULT_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        tool: Rule(
            Source.DEFAULT,
            tool,
            when=parse_when(_PERSISTENT_FOLDERS),
            when_json=_PERSISTENT_FOLDERS,
        )
        for tool in ("write_file", "edit_file", "delete_file")
    }
)
"""What is gated unless a user says otherwise: writing where an agent remembers."""


def parse_interrupt_on(
    source: object, *, known_tools: Collection[str], pointer: str = "/interrupt_on"
) -> InterruptOn:
    """Read the `interrupt_on` of an agent spec; `known_tools` are the names it may use.

    Raises RuleInvalid with every fault at once.
    """
    if not isinstance(source, dict):
        raise RuleInvalid([Violation(pointer, "is not an object")])
    entries: dict[str, Rule | None] = {}
    violations: list[Violation] = []
    for name, body in source.items():
        at = pointer_to(pointer, name)
        if not isinstance(name, str):
            violations.append(Violation(at, "is not text"))
            continue
        if "*" not in name and name not in known_tools:
            violations.append(Violation(at, "is not the name of a known tool"))
        try:
            entries[name] = _read_entry(name, body, at)
        except RuleInvalid as error:
            violations += error.violations
    if violations:
        raise RuleInvalid(violations)
    return InterruptOn(MappingProxyType(entries))


def inherit(
    parent: InterruptOn,
    declared: object,
    *,
    known_tools: Collection[str],
    pointer: str = "/interrupt_on",
) -> InterruptOn:
    """The entries of a subagent: its parent's if it declares none (`MISSING`), else its own.

    Declaring any, even `{}`, drops all of the parent's. The defaults stay below either.
    Raises RuleInvalid as `parse_interrupt_on` does.
    """
    if declared is MISSING:
        return parent
    return parse_interrupt_on(declared, known_tools=known_tools, pointer=pointer)


def effective(
    interrupt_on: InterruptOn,
    tool_names: Collection[str],
    tool_sources: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, EffectiveRule]:
    """What holds for each tool.

    The user's entry with the tool's exact name stands alone; else the default and the user's
    longest matching glob stand side by side, and either gates. Defaults are for built-in tools;
    a tool whose source is not given counts as one.
    """
    return {
        name: _effective_rule(interrupt_on, name, tool_sources.get(name, BUILTIN))
        for name in tool_names
    }


def warnings(
    interrupt_on: InterruptOn, tool_names: Collection[str], pointer: str = "/interrupt_on"
) -> list[PolicyWarning]:
    """What a user should be told about the entries he wrote, in their order."""
    return [
        PolicyWarning(kind, pointer_to(pointer, name), name, message)
        for name, rule in interrupt_on.entries.items()
        for kind, message in _warnings_about(name, rule, tool_names)
    ]


def judge(rule: EffectiveRule, arguments: JsonValue) -> Ruling:
    """Rule on one call; what cannot be decided is gated."""
    fired = [one for one in rule.rules() if one.gates(arguments)]
    if not fired:
        return NotGated()
    joined = _joined(fired)
    return Gated(joined.as_json(), joined.allowed)


def in_scope(stored_rule: JsonValue, arguments: JsonValue) -> bool:
    """Whether a call with these arguments surely is one that the stored rule speaks of.

    For edits: a human may change a call within the rule that stopped it, not beyond. False where
    the clause is false or unknown, and where the stored rule cannot be read.
    """
    if not isinstance(stored_rule, dict) or "when" not in stored_rule:
        return False
    source = stored_rule["when"]
    if source is None:
        return True
    try:
        return evaluate(parse_stored_when(source), arguments) is True
    except RuleInvalid:
        return False


def matches_glob(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern`, in which `*` stands for any text, empty too.

    Letter case counts; no other character is special. Linear in the length of the pattern times
    that of the name.
    """
    head, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, tail = rest
    if not name.startswith(head) or len(name) < len(head) + len(tail) or not name.endswith(tail):
        return False
    position, end = len(head), len(name) - len(tail)
    for part in middle:
        position = name.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _read_entry(name: str, body: object, pointer: str) -> Rule | None:
    if isinstance(body, bool):
        return Rule(Source.USER, name) if body else None
    if not isinstance(body, dict):
        raise RuleInvalid([Violation(pointer, "is neither true, false nor an object")])
    violations = [
        Violation(pointer_to(pointer, key), "is not a known key")
        for key in body
        if key not in ("allowed_decisions", "when")
    ]
    allowed, when = ALL_DECISIONS, None
    if "allowed_decisions" in body:
        at = pointer_to(pointer, "allowed_decisions")
        allowed = _read_decisions(body["allowed_decisions"], at, violations)
    if "when" in body:
        try:
            when = parse_when(body["when"], pointer_to(pointer, "when"))
        except RuleInvalid as error:
            violations += error.violations
    if violations:
        raise RuleInvalid(violations)
    return Rule(Source.USER, name, allowed, when, body.get("when"))


def _read_decisions(
    source: object, pointer: str, violations: list[Violation]
) -> tuple[Decision, ...]:
    if not isinstance(source, list) or not source:
        violations.append(Violation(pointer, "is not a list of at least one decision"))
        return ()
    known = {decision.value: decision for decision in Decision}
    violations += [
        Violation(pointer_to(pointer, index), "is not approve, edit, reject or respond")
        for index, item in enumerate(source)
        if not isinstance(item, str) or item not in known
    ]
    return tuple(
        dict.fromkeys(known[item] for item in source if isinstance(item, str) and item in known)
    )


def _effective_rule(interrupt_on: InterruptOn, name: str, source: str) -> EffectiveRule:
    if name in interrupt_on.entries:
        return EffectiveRule(name, user=interrupt_on.entries[name])
    globs = [g for g in interrupt_on.entries if "*" in g and matches_glob(g, name)]
    # Between two of one length the order must not depend on how the spec was stored.
    longest = min(globs, key=lambda glob: (-len(glob), glob), default=None)
    return EffectiveRule(
        name,
        user=None if longest is None else interrupt_on.entries[longest],
        default=DEFAULT_RULES.get(name) if source == BUILTIN else None,
    )


def _joined(rules: list[Rule]) -> Rule:
    """One rule for those that fired, one or two: the user's decisions, the scope of either."""
    first, *rest = rules
    if not rest:
        return first
    if any(rule.when is None for rule in rules):
        return Rule(Source.BOTH, first.entry, first.allowed)
    either: JsonValue = {"any": [rule.when_json for rule in rules]}
    return Rule(Source.BOTH, first.entry, first.allowed, parse_stored_when(either), either)


def _warnings_about(
    name: str, rule: Rule | None, tool_names: Collection[str]
) -> Iterator[tuple[WarningKind, str]]:
    if "*" in name:
        if not any(matches_glob(name, tool) for tool in tool_names):
            yield WarningKind.GLOB_MATCHES_NOTHING, "matches no tool"
        return
    default = DEFAULT_RULES.get(name)
    if default is None:
        return
    if rule is None:
        yield WarningKind.INTERRUPT_REMOVED, "removes the default rule of this tool"
    elif rule.when is not None and not json_equal(rule.when_json, default.when_json):
        yield WarningKind.INTERRUPT_LOOSENED, "replaces the default rule of this tool"
