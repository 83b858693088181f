"""Which patterns explode when they are matched by backtracking."""

import re
import time

import pytest
from hango_policy.patterns import PatternAnalysis, TooComplicatedError


def matches(atom: str, character: str) -> bool:
    return re.fullmatch(atom, character) is not None


def explodes(pattern: str) -> bool:
    return PatternAnalysis(matches).explodes(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "(a*)*",
        "(a|a)*",
        "(a|b|ab)*c",
        r"([a-z]+\s*)+",
        r"^(\w+\s?)*$",
        "(a{1,50})+",
        "(a{2,})+",
        r"(\w|\d)*x",
        "(a?a?)*",
        "((a+)b?)+",
        "(?:a+|b)+",
        "(?P<name>.*)*",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(x+x+)+y",
        "(a+?)+?b",
        "([^/]|[/-9])*",
    ],
)
def test_exponential(pattern: str) -> None:
    assert explodes(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^a+$",
        "(a|b)*",
        "([^/]|/)*",
        "^(foo|far)*$",
        "^.{1,255}$",
        "^[a-z0-9]+(-[a-z0-9]+)*$",
        r"^(\\.|[^\\])*$",
        r"^[^@]+@[^@]+\.[^@]+$",
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        r"^\s*(\w+\s*,\s*)*\w+$",
        r"^/(?:[^/]+/)*[^/]*$",
        "^([a-z]{2}(, )?)+$",
        r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$",
        "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        ".*a.*b.*c",
        r"^\$\{[a-z]+\}$",
    ],
)
def test_not_exponential(pattern: str) -> None:
    assert not explodes(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 20 + "a{2,3}" + "){2}" * 20,
        "(" + "|".join(f"a{n}" for n in range(300)) + ")*",
        "(a" * 200 + ")*" * 200,
        "(a",
        "[a",
        "a)",
        "(?=a)",
    ],
)
def test_what_cannot_be_analysed_is_said_quickly(pattern: str) -> None:
    started = time.process_time()
    with pytest.raises(TooComplicatedError):
        explodes(pattern)
    assert time.process_time() - started < 0.5


def test_the_budget_is_shared_by_the_patterns_of_a_schema() -> None:
    analysis = PatternAnalysis(matches)
    with pytest.raises(TooComplicatedError):
        any(analysis.explodes("^[a-z]{1,9}(-[a-z]{1,9})*$") for _ in range(1_000))
