"""One canonical form of a path, for the matcher and for the file tools alike.

A rule that looks at another file than the tool writes is no rule. Whatever two readers could
take for two different paths is refused, not repaired (protocol, section 4, "Paths").
"""

import re
import unicodedata

from hango_policy.errors import PathRefused

MAX_PATH_CHARS = 1024
"""The longest path, in characters."""

_PERCENT_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
# Control, format (zero width, right-to-left), surrogate, line and paragraph separator.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def canonical(path: str) -> str:
    """The absolute form of `path`: `/a/b`, without `.`, `..`, empty segments or a final slash.

    A relative path starts at `/`. The result is NFC, and canonical in itself.

    Raises PathRefused for an empty or over-long path, NUL, a backslash, control and format
    characters, `%` escapes, characters that compatibility normalisation would turn into others,
    and a `..` that leaves the root.
    """
    _refuse_ambiguous(path)
    segments: list[str] = []
    for segment in unicodedata.normalize("NFC", path).split("/"):
        if segment == "..":
            if not segments:
                reason = "leaves the root"
                raise PathRefused(reason)
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return "/" + "/".join(segments)


def is_under(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it, segment by segment, letter case counting.

    Raises PathRefused as `canonical` does, for either.
    """
    return _starts_with(_segments(path), _segments(folder))


def is_under_in_any_case(path: str, folder: str) -> bool:
    """As `is_under`, letter case not counting: for a matcher that must not be fooled by it."""
    return _starts_with(_folded(path), _folded(folder))


def _refuse_ambiguous(path: str) -> None:
    if not path:
        reason = "is empty"
        raise PathRefused(reason)
    if len(path) > MAX_PATH_CHARS:
        reason = f"is longer than {MAX_PATH_CHARS} characters"
        raise PathRefused(reason)
    if "\\" in path:
        reason = "has a backslash"
        raise PathRefused(reason)
    if any(unicodedata.category(character) in _INVISIBLE for character in path):
        reason = "has a control or format character"
        raise PathRefused(reason)
    if _PERCENT_ESCAPE.search(path):
        reason = "has a percent escape"
        raise PathRefused(reason)
    if unicodedata.normalize("NFKC", path) != unicodedata.normalize("NFC", path):
        reason = "has a character that stands for another one"
        raise PathRefused(reason)


def _segments(path: str) -> list[str]:
    return [segment for segment in canonical(path).split("/") if segment]


def _folded(path: str) -> list[str]:
    return [unicodedata.normalize("NFC", segment.casefold()) for segment in _segments(path)]


def _starts_with(segments: list[str], head: list[str]) -> bool:
    return segments[: len(head)] == head
