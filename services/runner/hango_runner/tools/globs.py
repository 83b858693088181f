"""File name patterns, matched segment by segment in bounded time."""

from __future__ import annotations

from fnmatch import fnmatchcase


class Glob:
    """A pattern of the `glob` tool: `*`, `?`, `[…]` within a name, `**` for any folders.

    Letter case counts. A pattern with a leading slash is meant from the root.
    """

    def __init__(self, pattern: str) -> None:
        self.is_absolute = pattern.startswith("/")
        self._segments: list[str] = []
        for segment in pattern.split("/"):
            if segment not in ("", ".") and not self._repeats(segment):
                self._segments.append(segment)

    def matches(self, path: str) -> bool:
        """Whether the whole of `path` (segments joined by slashes) matches.

        Time is bounded by segments of the pattern times segments of the path: no backtracking.
        """
        # reached[i]: the first i segments of the pattern can match what was read so far.
        reached = [False] * (len(self._segments) + 1)
        reached[0] = True
        self._skip_stars(reached)
        for name in path.split("/"):
            reached = self._step(reached, name)
        return reached[-1]

    def _step(self, reached: list[bool], name: str) -> list[bool]:
        after = [False] * len(reached)
        for i, segment in enumerate(self._segments):
            if not reached[i]:
                continue
            if segment == "**":
                after[i] = True
            elif fnmatchcase(name, segment):
                after[i + 1] = True
        self._skip_stars(after)
        return after

    def _skip_stars(self, reached: list[bool]) -> None:
        for i, segment in enumerate(self._segments):
            if reached[i] and segment == "**":
                reached[i + 1] = True

    def _repeats(self, segment: str) -> bool:
        return segment == "**" and self._segments[-1:] == ["**"]
