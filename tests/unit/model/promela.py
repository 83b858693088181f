"""Reads the state machines out of docs/model/approval.pml: its default variant, nothing mutated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MODEL = Path(__file__).parents[3] / "docs" / "model" / "approval.pml"

# What is on in the variant that is read: everything that the model can do, and no mutant.
_ON = {"ASKS > 0", "SUSPS > 1", "SUSPS > 2"}
_MACRO = re.compile(r"^#define (\w+)\((\w+(?:,\w+)*)\)(.*\n(?:[ ]+(?:::|\w).*\n)*)", re.MULTILINE)


def source() -> str:
    """The model without comments and mutants; calls are replaced by what they stand for."""
    text = re.sub(r"/\*.*?\*/", "", MODEL.read_text(), flags=re.DOTALL).replace("\\\n", "\n")
    return _expand(_without_mutants(text))


def states(kind: str) -> set[str]:
    """The members of one of the model's enumerations, in lower case."""
    found = re.search(rf"mtype:{kind} = {{([^}}]*)}}", source())
    assert found is not None, f"the model has no mtype {kind}"
    return {name.strip().lower() for name in found[1].split(",")}


def moves(
    variable: str, guards: Mapping[str, Collection[str]], aliases: Mapping[str, str]
) -> dict[str, set[str]]:
    """From each state to which others `variable` goes, by its assignments.

    `guards` tells for the text of a guard in which states the variable is behind it. What counts is
    the nearest option (`::`) before the assignment whose guard is known; of `v = (guard -> B : v)`
    it is that guard. `aliases` are macros that stand for a state.
    """
    text = source()
    known = re.compile("|".join(map(re.escape, sorted(guards, key=len, reverse=True))))
    found: dict[str, set[str]] = {}
    for assigned in re.finditer(rf"(?<!:life )\b{variable}(?:\[[^]=]+\])? = ([^;}}:]+)", text):
        value = assigned[1].strip()
        before = text[: assigned.start()]
        if (conditional := re.match(r"\((.*) -> (\w+)", value)) is not None:
            before, value = conditional[1], conditional[2]
        value = aliases.get(value, value.lower())
        option = next((o for o in reversed(before.split("::")) if known.search(o)), None)
        if option is None:
            continue  # its declaration
        for start in {s for guard in known.findall(option) for s in guards[guard]}:
            found.setdefault(start, set()).add(value)
    return found


def _without_mutants(text: str) -> str:
    """Take the branches of the preprocessor in which no mutant is defined."""
    kept: list[str] = []
    taken: list[bool] = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word in ("#ifdef", "#ifndef", "#if"):
            taken.append(word == "#ifndef" or rest in _ON)
        elif word == "#elif":
            taken[-1] = False
        elif word == "#else":
            taken[-1] = not taken[-1]
        elif word == "#endif":
            taken.pop()
        elif all(taken):
            kept.append(line)
    assert not taken
    return "\n".join(kept)


def _expand(text: str) -> str:
    """Put the bodies of inlines and of macros that hold statements where they are called."""
    bodies: dict[str, tuple[list[str], str]] = {}
    while (head := re.search(r"inline (\w+)\(([^)]*)\) {", text)) is not None:
        end = _closing(text, head.end())
        parameters = [p.strip() for p in head[2].split(",") if p.strip()]
        bodies[head[1]] = (parameters, text[head.end() : end])
        text = text[: head.start()] + text[end + 1 :]
    for name, given, body in _MACRO.findall(text):
        if "::" in body or re.match(r"\s*(ex\[|if )", body):
            bodies[name] = (given.split(","), body)
    text = _MACRO.sub("", text)
    for _ in range(4):
        for name, (parameters, body) in bodies.items():
            text = _replaced(text, name, parameters, body)
    return text


def _replaced(text: str, name: str, parameters: list[str], body: str) -> str:
    at = 0
    while (call := re.compile(rf"\b{name}\(").search(text, at)) is not None:
        end = _closing(text, call.end(), "()")
        given = _arguments(text[call.end() : end])
        if len(given) != len(parameters):
            at = end
            continue
        put = body
        for parameter, argument in zip(parameters, given, strict=True):
            put = re.sub(rf"\b{parameter}\b", argument, put)
        text = text[: call.start()] + put + text[end + 1 :]
        at = call.start() + len(put)
    return text


def _arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _closing(text: str, start: int, pair: str = "{}") -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if depth == 0:
            return place
    raise AssertionError("a bracket is not closed")
