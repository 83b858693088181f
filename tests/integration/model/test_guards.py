"""Each guard of the transitions is needed: without it a named scenario ends badly.

The tenant in each WHERE clause is not here: row level security holds without it, and has its own
tests.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import asyncpg
import pytest
from hango_approvals.postgres import suspensions as of_a
from hango_runner.postgres import journal, outbox, queue, runs, suspensions

from tests.integration.model import scenarios as s

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from tests.integration.model.scenarios import Scenario
    from tests.integration.model.world import World

MODULES = (journal, outbox, queue, runs, suspensions, of_a)
EPOCH, LIVE = "lease_epoch = $3", "AND state = 'running'"
ANY_EPOCH = "$3::bigint IS NOT NULL"
PENDING = "AND state = 'pending'"


@dataclass(frozen=True)
class Mutant:
    """A guard that is replaced in a query, and who notices."""

    query: str
    guard: str
    put: str
    dies: Scenario


MUTANTS = [
    Mutant("answer_run", EPOCH, ANY_EPOCH, s.answer_fenced),
    Mutant("answer_run", LIVE, "", s.answer_live),
    Mutant("start_call", EPOCH, ANY_EPOCH, s.start_fenced),
    Mutant("start_call", LIVE, "", s.start_live),
    Mutant("start_call", "AND (c.exec_state = 'none'", "AND (true", s.what_is_done_is_not_started),
    Mutant("start_call", "AND c.exec_epoch < $3", "", s.read_is_not_started_twice),
    Mutant(
        "start_call",
        "AND c.effect IN ('read', 'keyed', 'transactional')",
        "",
        s.once_is_not_repeated,
    ),
    Mutant("start_call", "c.ruling = 'free' AND", "", s.undecided_is_not_started),
    Mutant("start_call", "c.arguments_sha256 = $7", "true", s.free_bytes),
    Mutant("start_call", "c.decision IN ('approve', 'edit') AND", "", s.rejected_is_not_started),
    Mutant("start_call", "c.decided_sha256 = $7", "true", s.decided_bytes),
    Mutant(
        "finish_call", "AND c.exec_epoch = $3", "AND " + ANY_EPOCH, s.a_result_is_of_who_started
    ),
    Mutant(
        "finish_call", "AND c.exec_state IN ('started', 'unknown')", "", s.a_result_is_given_once
    ),
    Mutant("finish_call", "WHERE held.live", "", s.a_story_ends),
    Mutant("give_up_call", EPOCH, ANY_EPOCH, s.give_up_fenced),
    Mutant("give_up_call", LIVE, "", s.give_up_live),
    Mutant("give_up_call", "c.exec_state = 'none'", "true", s.what_is_done_is_not_given_up),
    Mutant("give_up_call", "AND c.exec_epoch < $3", "", s.what_is_under_way_is_not_given_up),
    Mutant("finish_batch", EPOCH, ANY_EPOCH, s.batch_fenced),
    Mutant("finish_batch", LIVE, "", s.batch_live),
    Mutant("finish_run", EPOCH, ANY_EPOCH, s.finish_fenced),
    Mutant("finish_run", LIVE, "", s.finish_live),
    Mutant("claim_runs", "state = 'queued' AND", "", s.only_queued_is_claimed),
    Mutant("claim_runs", "lane = $1", "$1::text IS NOT NULL", s.a_lane_is_kept),
    Mutant("renew_leases", "AND r.lease_epoch = mine.epoch", "", s.a_stolen_lease_is_not_renewed),
    Mutant("renew_leases", "AND r.state = 'running'", "", s.a_released_lease_is_not_renewed),
    Mutant("release_run", EPOCH, ANY_EPOCH, s.anothers_run_is_not_released),
    Mutant("release_run", LIVE, "", s.a_paused_run_is_not_released),
    Mutant("reap_runs", "state = 'running' AND", "", s.a_cancelled_run_is_not_reaped),
    Mutant("reap_runs", "AND lease_until < clock_timestamp()", "", s.a_live_lease_is_not_reaped),
    Mutant("reap_runs", "attempts < $2", "$2::int IS NOT NULL", s.attempts_end),
    Mutant("exhaust_run", LIVE, "", s.not_exhausted_but_queued),
    Mutant("exhaust_run", "AND lease_until < clock_timestamp()", "", s.not_exhausted_but_renewed),
    Mutant("exhaust_run", "attempts >= $3", "$3::int IS NOT NULL", s.not_exhausted_but_answered),
    Mutant(
        "left_started",
        "AND r.state IN ('succeeded', 'failed', 'cancelled')",
        "",
        s.only_what_runs_is_closed,
    ),
    Mutant(
        "left_started",
        "(r.lease_until IS NULL OR r.lease_until < clock_timestamp())",
        "true",
        s.a_worker_may_end_its_call,
    ),
    Mutant("close_started", "AND exec_state = 'started'", "", s.only_started_becomes_unknown),
    Mutant("skip_calls", "AND exec_state = 'none'", "", s.what_has_started_is_not_skipped),
    Mutant("open_run", "suspension_id = $3", "$3::uuid IS NOT NULL", s.an_old_answer_opens_nothing),
    Mutant("open_run", "AND state = 'awaiting_approval'", "", s.a_cancelled_run_is_not_opened),
    Mutant("open_run", "AND suspension_opened_at IS NULL", "", s.opened_once),
    Mutant(
        "lock_awaiting",
        "suspension_id = $3",
        "$3::uuid IS NOT NULL",
        s.an_old_verdict_resumes_nothing,
    ),
    Mutant("lock_awaiting", "AND state = 'awaiting_approval'", "", s.a_verdict_resumes_once),
    Mutant("copy_decisions", "AND c.ruling = 'gated'", "", s.a_free_call_takes_no_decision),
    # Each of these two holds without the other: a decided call has been dealt with.
    Mutant(
        "copy_decisions",
        "AND c.decision IS NULL AND c.exec_state = 'none'",
        "",
        s.decisions_stand,
    ),
    Mutant("close_as_decided", PENDING, "", s.withdrawn_is_not_decided),
    Mutant("close_as_decided", "AND clock_timestamp() < expires_at", "", s.late_is_not_decided),
    Mutant("close_suspension", PENDING, "", s.decided_is_not_closed),
    Mutant("lock_due_suspension", "state = 'pending' AND", "", s.decided_does_not_expire),
    Mutant(
        "lock_due_suspension",
        "AND expires_at <= statement_timestamp()",
        "",
        s.nothing_expires_early,
    ),
]
CASES = [pytest.param(m, id=f"{m.query}-{i}") for i, m in enumerate(MUTANTS)]


@pytest.mark.parametrize("mutant", CASES)
def test_its_scenario_ends_well_with_it(
    world: World, runner: asyncio.Runner, mutant: Mutant
) -> None:
    runner.run(world.clear())
    runner.run(mutant.dies(world))


@pytest.mark.parametrize("mutant", CASES)
def test_its_scenario_ends_badly_without_it(
    world: World, runner: asyncio.Runner, mutant: Mutant
) -> None:
    runner.run(world.clear())
    with (
        without(mutant),
        pytest.raises((AssertionError, asyncpg.IntegrityConstraintViolationError)),
    ):
        runner.run(mutant.dies(world))


@contextmanager
def without(mutant: Mutant) -> Iterator[None]:
    """Replace the guard wherever the query was loaded, and put it back."""
    kept = []
    for module in MODULES:
        found = module.SQL._found
        if (query := found.get(mutant.query)) is not None:
            assert query.sql.count(mutant.guard) == 1, f"{mutant.guard!r} is not there once"
            kept.append((found, query))
            found[mutant.query] = replace(query, sql=query.sql.replace(mutant.guard, mutant.put))
    assert kept, f"there is no query {mutant.query}"
    try:
        yield
    finally:
        for found, query in kept:
            found[query.name] = query
