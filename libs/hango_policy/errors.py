"""What this library refuses, and how it says so.

    PolicyError (ValueError)
    ├── JsonRefused      text or value that is not strict JSON
    ├── PathRefused      a path the canonicaliser does not accept
    ├── SchemaRefused    a tool schema that is broken, hostile or too large
    └── RuleInvalid      rules of an agent spec; carries every violation at once

No message repeats a value of a tool call's arguments: they end up in answers and in logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault at one place. `pointer` is an RFC 6901 JSON pointer, `""` being the whole."""

    pointer: str
    message: str


def pointer_to(base: str, *parts: str | int) -> str:
    """The JSON pointer of a member below `base` (RFC 6901, section 3: `~` and `/` escaped)."""
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "/".join((base, *escaped))


class PolicyError(ValueError):
    """Root of this library's errors."""


class JsonRefused(PolicyError):
    """Not strict JSON; `reason` says why without repeating the text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PathRefused(PolicyError):
    """Not a path of the virtual file system; `reason` says why without repeating the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SchemaRefused(PolicyError):
    """A tool schema that may not be used; `reason` is for the operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RuleInvalid(PolicyError):
    """Rules that cannot be used; `violations` lists every fault, at least one."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.pointer or '/'}: {v.message}" for v in violations))
        self.violations = list(violations)
