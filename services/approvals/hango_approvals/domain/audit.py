"""The audit trail: what a row says, and how rows are chained.

The hash of a row is the SHA-256 of the hash of the row before (32 bytes; zeros before the first)
followed by the canonical JSON of the row's other columns: keys sorted, no white space, UTF-8,
times in UTC with microseconds, `detail` as the text that is stored.
"""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import orjson
from hango_platform import ids
from hango_platform.telemetry import trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

GENESIS = "0" * 64


class Outcome(enum.StrEnum):
    """How an act ended."""

    OK = "ok"
    DENIED = "denied"
    ERROR = "error"


class Target(enum.StrEnum):
    """What an act of this service was done to. The runner's acts name kinds of their own."""

    APPROVAL = "pending_approval"
    RUN = "run"
    USER = "user"
    KEY = "api_key"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to be written down. `actor_id` is None for the system, `at` None for now; `detail`
    holds ids, states and digests, never an argument or a message.
    """

    action: str
    target_kind: str
    target_id: str
    actor_id: str | None = None
    run_id: str | None = None
    outcome: Outcome = Outcome.OK
    detail: dict[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    id: str = field(default_factory=ids.new_id)
    trace_id: str = field(default_factory=trace.trace_id)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a tenant's chain, and the database's clock when it was locked."""

    seq: int
    hash: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the trail, as it is stored. `detail` is JSON text."""

    tenant_id: str
    seq: int
    id: str
    at: datetime
    actor_kind: str
    actor_id: str | None
    action: str
    target_kind: str
    target_id: str
    run_id: str | None
    outcome: str
    detail: str
    trace_id: str
    prev_hash: str = ""
    hash: str = ""

    def hash_after(self, prev_hash: str) -> str:
        """The hash that this row must have behind a row of that hash."""
        columns = {  # in the order of their names
            "action": self.action,
            "actor_id": self.actor_id,
            "actor_kind": self.actor_kind,
            "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "detail": self.detail,
            "id": self.id,
            "outcome": self.outcome,
            "run_id": self.run_id,
            "seq": self.seq,
            "target_id": self.target_id,
            "target_kind": self.target_kind,
            "tenant_id": self.tenant_id,
            "trace_id": self.trace_id,
        }
        return hashlib.sha256(bytes.fromhex(prev_hash) + orjson.dumps(columns)).hexdigest()


def chain(tenant_id: str, head: Head, entries: Iterable[Entry]) -> list[Record]:
    """The rows that these entries become behind the head."""
    records = []
    seq, prev_hash = head.seq, head.hash
    for entry in entries:
        seq += 1
        bare = Record(
            tenant_id=tenant_id,
            seq=seq,
            id=entry.id,
            at=entry.at or head.now,
            actor_kind="user" if entry.actor_id else "system",
            actor_id=entry.actor_id,
            action=entry.action,
            target_kind=entry.target_kind,
            target_id=entry.target_id,
            run_id=entry.run_id,
            outcome=entry.outcome.value,
            detail=json.dumps(entry.detail, sort_keys=True, separators=(",", ":")),
            trace_id=entry.trace_id,
        )
        record = replace(bare, prev_hash=prev_hash, hash=bare.hash_after(prev_hash))
        records.append(record)
        prev_hash = record.hash
    return records


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows to list; None lets all pass."""

    run_id: str | None = None
    target_id: str | None = None
    action: str | None = None
    actor_id: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of the chain at a row."""

    seq: int
    problem: str


class Verifier:
    """Recomputes a chain page by page, from its first row, or from behind `start` (number and hash)
    where its oldest rows were pruned. `anchor` is a row that is known from elsewhere.
    """

    def __init__(
        self, start: tuple[int, str] = (0, GENESIS), anchor: tuple[int, str] | None = None
    ) -> None:
        self.checked = 0
        self.problems: list[Problem] = []
        self._seq, self._hash = start
        self._anchor = anchor
        self._anchor_at_start()

    @property
    def seq(self) -> int:
        """The last row that was read."""
        return self._seq

    def read(self, records: Sequence[Record]) -> None:
        """Check the rows that come next."""
        for record in records:
            self.checked += 1
            if record.seq != self._seq + 1:
                missing = f"rows {self._seq + 1} to {record.seq - 1} are missing"
                self.problems.append(Problem(self._seq + 1, missing))
            elif record.prev_hash != self._hash:
                self.problems.append(Problem(record.seq, "does not follow from the row before"))
            if not _sound(record):
                self.problems.append(Problem(record.seq, "was changed after it had been written"))
            self._seq, self._hash = record.seq, record.hash
            if self._anchor is not None and record.seq == self._anchor[0]:
                self._compare_anchor()

    def _anchor_at_start(self) -> None:
        if self._anchor is None or self._anchor[0] > self._seq:
            return
        if self._anchor[0] == self._seq:
            self._compare_anchor()
        self._anchor = None  # it is older than what is left of the chain

    def _compare_anchor(self) -> None:
        if self._anchor != (self._seq, self._hash):
            self.problems.append(Problem(self._seq, "is not the row that a signed head names"))
        self._anchor = None

    def end(self, head: tuple[int, str] | None) -> None:
        """Compare the end with the head that is kept beside the chain, and with the anchor."""
        if self._anchor is not None:
            missing = f"rows up to {self._anchor[0]}, which a signed head names, are missing"
            self.problems.append(Problem(self._anchor[0], missing))
        if head is None:
            self.problems.append(Problem(self._seq, "the head of the chain is missing"))
        elif head[0] > self._seq:
            missing = f"rows {self._seq + 1} to {head[0]} are missing at the end"
            self.problems.append(Problem(self._seq + 1, missing))
        elif head != (self._seq, self._hash):
            self.problems.append(Problem(head[0], "is not the row that the head names"))


def _sound(record: Record) -> bool:
    try:
        return record.hash == record.hash_after(record.prev_hash)
    except ValueError:
        return False
