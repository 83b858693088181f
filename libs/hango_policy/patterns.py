"""Finds patterns on which a backtracking engine takes exponential time, such as `^(a+)+$`.

Our own validator runs every pattern in linear time. But a schema travels on, to browsers and to
tool servers that backtrack, so that such a pattern is refused where it enters.

A pattern explodes if, in the automaton of its characters (Glushkov's), a state can return to
itself in two different ways while reading the same text (Weber and Seidl, "On the degree of
ambiguity of finite automata", 1991). Both ways are looked for: an edge that the pattern makes
twice, and two paths that part and meet again.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

MAX_STEPS = 50_000
"""The most work spent on the patterns of one schema; some 20 ms."""
MAX_GROUP_DEPTH = 50
"""How deep groups may stand in one another."""

_STEPS_OF_AN_ATOM = 200
_STEPS_OF_A_POSITION = 20

_ALPHABET = "".join(map(chr, range(128))) + "é中\u2028"
_ESCAPE = re.compile(
    r"\\(?:[pPxu]\{[^}]*\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|.)", re.DOTALL
)
_GROUP = re.compile(r"\((?:\?P?<[^>]*>|\?[a-zA-Z-]*:|(?!\?))")
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")
_REPEAT = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})\??")
_ZERO_WIDTH = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\z"})

CharacterTest: TypeAlias = Callable[[str, str], bool]
"""Whether an atom's text (`[a-z]`, `.`) matches a character."""


class TooComplicatedError(ValueError):
    """The pattern could not be analysed within bounds."""


@dataclass(frozen=True, slots=True)
class _Atom:
    text: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: "_Node"
    least: int
    most: int | None


_Node: TypeAlias = _Atom | _Sequence | _Choice | _Repeat


class PatternAnalysis:
    """Looks at the patterns of one schema, with one budget of work for all."""

    def __init__(self, matches: CharacterTest) -> None:
        self._matches = matches
        self._characters: dict[str, frozenset[str]] = {}
        self._steps = 0

    def explodes(self, pattern: str) -> bool:
        """Whether matching the pattern by backtracking may take exponential time.

        `pattern` is known to be well-formed. Raises TooComplicatedError.
        """
        self.spend(len(pattern))
        automaton = _Automaton(self)
        automaton.build(_Parser(pattern).parse())
        return automaton.is_ambiguous()

    def characters(self, atom: str) -> frozenset[str]:
        """The characters of a small alphabet that an atom matches."""
        if atom not in self._characters:
            self.spend(_STEPS_OF_AN_ATOM)
            self._characters[atom] = frozenset(c for c in _ALPHABET if self._matches(atom, c))
        return self._characters[atom]

    def spend(self, steps: int) -> None:
        """Account for work; raises TooComplicatedError when too much was done."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooComplicatedError


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.depth = 0

    def parse(self) -> _Node:
        node = self._choice()
        if self.at < len(self.text):
            raise TooComplicatedError
        return node

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self.text.startswith("|", self.at):
            self.at += 1
            options.append(self._sequence())
        return _Choice(tuple(options))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            part = self._part()
            repeat = self._take(_REPEAT)
            parts.append(part if repeat is None else _repeated(part, repeat))
        return _Sequence(tuple(parts))

    def _part(self) -> _Node:
        if self._take(_FLAGS):
            return _Sequence(())
        if self._take(_GROUP):
            return self._rest_of_group()
        start = self.at
        if self.text[start] == "[":
            self._skip_class()
        elif not self._take(_ESCAPE):
            self.at += 1
        text = self.text[start : self.at]
        if text == "(":
            raise TooComplicatedError
        return _Sequence(()) if text in _ZERO_WIDTH else _Atom(text)

    def _rest_of_group(self) -> _Node:
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise TooComplicatedError
        inner = self._choice()
        if not self.text.startswith(")", self.at):
            raise TooComplicatedError
        self.at += 1
        self.depth -= 1
        return inner

    def _skip_class(self) -> None:
        depth = 0
        while self.at < len(self.text):
            if self._take(_ESCAPE):
                continue
            depth += {"[": 1, "]": -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                return
        raise TooComplicatedError

    def _take(self, syntax: re.Pattern[str]) -> re.Match[str] | None:
        found = syntax.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found


def _repeated(part: _Node, repeat: re.Match[str]) -> _Node:
    symbol, least, comma, most = repeat.groups()
    if symbol is not None:
        return _Repeat(part, 1 if symbol == "+" else 0, 1 if symbol == "?" else None)
    if not comma:
        return _Repeat(part, int(least), int(least))
    return _Repeat(part, int(least), int(most) if most else None)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of the automaton: whether it may be empty, and its first and last positions."""

    empty: bool
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()


class _Automaton:
    def __init__(self, analysis: PatternAnalysis) -> None:
        self._analysis = analysis
        self._characters: list[frozenset[str]] = []
        self._edges: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def build(self, node: _Node) -> _Fragment:
        match node:
            case _Atom(text):
                return self._add(text)
            case _Sequence(parts):
                whole = _Fragment(empty=True)
                for part in parts:
                    whole = self._then(whole, self.build(part))
                return whole
            case _Choice(options):
                built = [self.build(option) for option in options]
                return _Fragment(
                    empty=any(one.empty for one in built),
                    first=tuple(p for one in built for p in one.first),
                    last=tuple(p for one in built for p in one.last),
                )
            case _Repeat(part, least, most):
                return self._repeat(part, least, most)

    def is_ambiguous(self) -> bool:
        for start, targets in self._edges.items():
            for target, ways in targets.items():
                if ways > 1 and start in self._reachable([target]):
                    return True
        circular = [p for p in list(self._edges) if p in self._reachable(list(self._edges[p]))]
        return any(map(self._parts_and_meets, circular))

    def _add(self, text: str) -> _Fragment:
        self._analysis.spend(_STEPS_OF_A_POSITION)
        self._characters.append(self._analysis.characters(text))
        position = len(self._characters) - 1
        return _Fragment(empty=False, first=(position,), last=(position,))

    def _then(self, left: _Fragment, right: _Fragment) -> _Fragment:
        self._connect(left.last, right.first)
        return _Fragment(
            empty=left.empty and right.empty,
            first=left.first + right.first if left.empty else left.first,
            last=left.last + right.last if right.empty else right.last,
        )

    def _repeat(self, part: _Node, least: int, most: int | None) -> _Fragment:
        """A bounded repetition is built as two copies: enough to see that it has a choice."""
        once = self.build(part)
        if most is None:
            self._connect(once.last, once.first)
        elif most > 1:
            again = self.build(part)
            optional = _Fragment(again.empty or least < most, again.first, again.last)
            once = self._then(once, optional)
        return _Fragment(once.empty or least == 0, once.first, once.last)

    def _connect(self, sources: Iterable[int], targets: tuple[int, ...]) -> None:
        for source in sources:
            self._analysis.spend(len(targets))
            self._edges[source].update(targets)

    def _reachable(self, start: list[int]) -> set[int]:
        seen, open_ = set(start), list(start)
        while open_:
            edges = self._edges[open_.pop()].keys()
            self._analysis.spend(len(edges))
            new = edges - seen
            seen |= new
            open_ += new
        return seen

    def _parts_and_meets(self, start: int) -> bool:
        """Whether two different paths lead from `start` to itself over the same text."""
        origin = (start, start)
        before: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        seen, open_ = {origin}, [origin]
        while open_:
            pair = open_.pop()
            for target in self._steps_together(*pair):
                before[target].append(pair)
                if target not in seen:
                    seen.add(target)
                    open_.append(target)
        back, open_ = {origin}, [origin]
        while open_:
            for pair in before[open_.pop()]:
                if pair not in back:
                    back.add(pair)
                    open_.append(pair)
        return any(left != right for left, right in back)

    def _steps_together(self, left: int, right: int) -> Iterator[tuple[int, int]]:
        """Where two paths may go by reading one same character."""
        for one in list(self._edges[left]):
            self._analysis.spend(len(self._edges[right]))
            for other in list(self._edges[right]):
                if not self._characters[one].isdisjoint(self._characters[other]):
                    yield one, other
