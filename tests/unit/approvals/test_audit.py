"""The hash chain: what it is made of, and what breaks it."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hango_approvals.domain.audit import GENESIS, Entry, Head, Record, Verifier, chain
from hango_platform import ids

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
TENANT = ids.new_id()


def records(number: int = 5) -> list[Record]:
    entries = [
        Entry("approval.decide", "pending_approval", ids.new_id(), detail={"n": n})
        for n in range(number)
    ]
    return chain(TENANT, Head(0, GENESIS, NOW), entries)


def problems(rows: list[Record], head: tuple[int, str] | None) -> list[int]:
    verifier = Verifier()
    verifier.read(rows)
    verifier.end(head)
    return [p.seq for p in verifier.problems]


def test_the_hash_is_what_the_docs_say() -> None:
    [row] = records(1)
    columns = {
        "tenant_id": TENANT,
        "seq": 1,
        "id": row.id,
        "at": "2026-01-02T03:04:05.678901+00:00",
        "actor_kind": "system",
        "actor_id": None,
        "action": "approval.decide",
        "target_kind": "pending_approval",
        "target_id": row.target_id,
        "run_id": None,
        "outcome": "ok",
        "detail": '{"n":0}',
        "trace_id": row.trace_id,
    }
    text = json.dumps(columns, sort_keys=True, separators=(",", ":"))
    assert row.hash == hashlib.sha256(bytes(32) + text.encode()).hexdigest()


def test_a_time_is_hashed_in_utc() -> None:
    [row] = records(1)
    elsewhere = row.at.astimezone(timezone(timedelta(hours=5)))
    assert replace(row, at=elsewhere).hash_after(GENESIS) == row.hash


def test_a_sound_chain_has_no_problems_in_pages_too() -> None:
    rows = records()
    verifier = Verifier()
    for row in rows:
        verifier.read([row])
    verifier.end((5, rows[-1].hash))
    assert (verifier.problems, verifier.checked) == ([], 5)
    assert problems([], (0, GENESIS)) == []


@pytest.mark.parametrize(
    "column",
    [
        "tenant_id",
        "id",
        "actor_kind",
        "actor_id",
        "action",
        "target_kind",
        "target_id",
        "run_id",
        "outcome",
        "detail",
        "trace_id",
        "hash",
    ],
)
def test_every_column_counts(column: str) -> None:
    rows = records()
    change: dict[str, Any] = {column: "0" * 64}
    damaged = [*rows[:2], replace(rows[2], **change), *rows[3:]]
    assert problems(damaged, (5, rows[-1].hash))[0] == 3


def test_the_time_counts() -> None:
    rows = records()
    later = replace(rows[2], at=NOW + timedelta(microseconds=1))
    assert problems([*rows[:2], later, *rows[3:]], (5, rows[-1].hash)) == [3]


def test_missing_rows_are_found_at_the_start_inside_and_at_the_end() -> None:
    rows = records()
    head = (5, rows[-1].hash)
    assert problems(rows[1:], head) == [1]
    assert problems([*rows[:2], *rows[3:]], head) == [3]
    assert problems(rows[:-1], head) == [5]
    assert problems([], head) == [1]


def test_a_head_that_is_missing_or_points_elsewhere() -> None:
    rows = records()
    assert problems(rows, None) == [5]
    assert problems(rows, (4, rows[3].hash)) == [4]
    assert problems(rows, (5, rows[3].hash)) == [5]


def test_a_rewritten_tail_does_not_fit_the_head() -> None:
    rows = records()
    forged = chain(TENANT, Head(4, rows[3].hash, NOW), [Entry("user.create", "user", "x")])
    assert problems([*rows[:4], *forged], (5, rows[-1].hash)) == [5]
