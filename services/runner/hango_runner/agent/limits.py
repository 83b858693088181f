"""What ends a run that does not end by itself: turns, model calls, tokens, time, and asking people
again for what they have refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hango_platform import clock
from hango_policy import strict_json
from hango_policy.errors import JsonRefused

from hango_runner.agent.state import Finished, Ruling
from hango_runner.domain.run import FailureReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_policy.strict_json import JsonValue

    from hango_runner.agent.state import Call, Loaded, Run, Usage


class Budget:
    """How much of its limits a run has used; made when the run is taken up.

    The time that people take does not count: nothing works then.
    """

    def __init__(self, run: Run, loaded: Loaded) -> None:
        self._progress = run.progress
        self._limits = run.spec.limits
        self._tokens = run.tokens
        self._since = clock.monotonic() - loaded.worked
        self._refused = Counter(_same(tool, raw) for tool, raw in loaded.refused)

    def use(self, usage: Usage) -> None:
        """Count an answer."""
        self._tokens += usage.input_tokens + usage.output_tokens

    def seconds_left(self) -> float | None:
        """Until the run has worked for too long; None without such a limit."""
        if self._limits.max_wall_time is None:
            return None
        return self._limits.max_wall_time.total_seconds() - (clock.monotonic() - self._since)

    def over(self, turn: int) -> Finished | None:
        """How an agent must end now, before it asks its model once more.

        Its turns are its own; all else is counted to the run.
        """
        limits = self._limits
        for name, used, most in (
            ("max_turns", turn, limits.max_turns),
            ("max_model_calls", self._progress.model_calls, limits.max_model_calls),
            ("max_tokens", self._tokens, limits.max_tokens),
        ):
            if most is not None and used >= most:
                return _ended(f"the limit {name} of {most} was reached")
        left = self.seconds_left()
        if left is not None and left <= 0 and limits.max_wall_time is not None:
            seconds = limits.max_wall_time.total_seconds()
            return _ended(f"the limit max_wall_time of {seconds:g} s was reached")
        return None

    def asked_too_often(self, calls: Sequence[Call]) -> Finished | None:
        """How the run must end, if one of these calls was refused so often that nobody is asked
        again.
        """
        most = self._limits.max_repeated_refusals
        for call in calls:
            again = (
                call.ruling is Ruling.GATED and self._refused[_same(call.tool_name, call.arguments)]
            )
            if again >= most:
                return _ended(
                    f"the limit max_repeated_refusals of {most} was reached: the model asked once "
                    f"more for a call of {call.tool_name} that people have refused each time"
                )
        return None


def _ended(message: str) -> Finished:
    return Finished(False, reason=FailureReason.LIMIT_EXCEEDED, message=message)


def _same(tool: str, raw: bytes) -> tuple[str, bytes]:
    """Equal for calls that ask for the same, however their text is spaced and ordered."""
    try:
        return tool, strict_json.dumps(_sorted(strict_json.parse(raw)))
    except JsonRefused:
        return tool, raw


def _sorted(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value
