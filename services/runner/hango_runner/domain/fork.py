"""Going on from a checkpoint another way, and comparing what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hango_runner.domain.run import RunView

NOT_EXECUTED = "This call was not executed: forked."
HARMLESS = ("ls", "read_file", "glob", "grep", "write_todos", "task", "ask_human")
"""Built-ins that change nothing themselves: nobody has to know of them before he forks."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point where the run could stop: `turn` answers were given, `next` is model or tools.

    `ended` where the agent had said its last word there.
    """

    id: str
    turn: int
    next: str
    message_count: int
    created_at: datetime
    ended: bool = False


@dataclass(frozen=True, slots=True)
class NewFork:
    """What is asked for. `input` is JSON text; `edits` are exact arguments by call id."""

    id: str
    run_id: str
    checkpoint_id: str
    input: str | None = field(repr=False)
    edits: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Executed:
    """A call that has run, or may have."""

    run_id: str
    tool_call_id: str
    tool_name: str
    state: str


@dataclass(frozen=True, slots=True)
class Forked:
    """The new run; what was done `before` the point, and by the original `after` it."""

    run: RunView
    before: tuple[Executed, ...]
    after: tuple[Executed, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """One run of a chain of forks: what of it is in the past of the chain's first."""

    run_id: str
    depth: int
    last_seq: int
    turns: int


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two runs part: the run they both come from (by its depth in either chain), the last
    message and the number of turns that they share.
    """

    origin: str
    depth: int
    other_depth: int
    last_seq: int
    turns: int


def parting(chain: Iterable[Link], other: Iterable[Link]) -> Parting | None:
    """Where the runs of these chains part; None where they have no common origin."""
    theirs = {link.run_id: link for link in other}
    for mine in chain:
        if their := theirs.get(mine.run_id):
            return Parting(
                mine.run_id,
                mine.depth,
                their.depth,
                min(mine.last_seq, their.last_seq),
                min(mine.turns, their.turns),
            )
    return None


@dataclass(frozen=True, slots=True)
class Compared:
    """A call of one of two runs. `arguments` as asked, `ran` as decided; `result` is JSON text."""

    step: int
    call_index: int
    tool_call_id: str
    tool_name: str
    arguments: bytes = field(repr=False)
    ran: bytes = field(repr=False)
    decision: str | None
    state: str
    result: str | None = field(repr=False)
    is_error: bool

    def like(self, other: Compared) -> bool:
        """The same was asked, decided and answered."""
        return self._essence() == other._essence()

    def _essence(self) -> tuple[object, ...]:
        return (
            self.tool_name,
            self.arguments,
            self.ran,
            self.decision,
            self.state,
            self.result,
            self.is_error,
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """The calls at one place since two runs parted; None where one of them has none."""

    step: int
    call_index: int
    call: Compared | None
    other: Compared | None

    @property
    def same(self) -> bool:
        """Both made the same call, to the same end."""
        return self.call is not None and self.other is not None and self.call.like(self.other)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs part, and their calls from there on."""

    origin: str
    shared_messages: int
    pairs: tuple[Pair, ...]


def side_by_side(calls: Iterable[Compared], others: Iterable[Compared]) -> tuple[Pair, ...]:
    """Calls at the same place beside each other, in order."""
    left = {(c.step, c.call_index): c for c in calls}
    right = {(c.step, c.call_index): c for c in others}
    places = sorted(left.keys() | right.keys())
    return tuple(Pair(*place, left.get(place), right.get(place)) for place in places)
