"""The queue in PostgreSQL: claim, renew, release, reap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.outbox.outbox import SQL as OUTBOX
from hango_platform.postgres.queries import load

from hango_runner.agent.state import ExecState
from hango_runner.domain.run import FailureReason, RunEnd
from hango_runner.domain.story import run_finished
from hango_runner.postgres.rows import run_of, text_or_none

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Transaction

    from hango_runner.agent.state import Run
    from hango_runner.postgres.outbox import Outbox, Wake

SQL = load(__package__)

MOST_ATTEMPTS = 5


class SqlQueue:
    """Runs that are ready to be worked on, over all tenants."""

    def __init__(self, database: Database, outbox: Outbox, wake: Wake, owner: str) -> None:
        self._database = database
        self._outbox = outbox
        self._wake = wake
        self._owner = owner

    async def claim(self, lane: str, limit: int, lease: timedelta) -> list[Run]:
        """T1: at most so many runs of this lane, oldest first; they are ours until the lease
        ends.
        """
        async with self._database.system() as tx:
            rows = await tx.many(SQL.claim_runs, lane, limit, self._owner, lease)
            if rows and faults.ACTIVE:
                await faults.reach("before_claim")
        return [run_of(r) for r in rows]

    async def renew(self, held: Sequence[Run], lease: timedelta) -> set[str]:
        """Prolong these leases; the runs that are still ours."""
        async with self._database.system() as tx:
            rows = await tx.many(
                SQL.renew_leases, [r.id for r in held], [r.epoch for r in held], lease
            )
        return {str(r["id"]) for r in rows}

    async def release(self, run: Run) -> None:
        """T10."""
        async with self._database.tenant(run.tenant_id) as tx:
            await tx.exec(SQL.release_run, run.tenant_id, run.id, run.epoch)

    async def reap(self, limit: int) -> int:
        """T6; how many runs were taken from their workers."""
        async with self._database.system() as tx:
            reaped = await tx.many(SQL.reap_runs, limit, MOST_ATTEMPTS)
            exhausted = await tx.many(SQL.exhausted_runs, limit, MOST_ATTEMPTS)
        for row in exhausted:
            await self._exhaust(str(row["tenant_id"]), str(row["id"]))
        return len(reaped) + len(exhausted)

    async def _exhaust(self, tenant_id: str, run_id: str) -> None:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.one(SQL.exhaust_run, tenant_id, run_id, MOST_ATTEMPTS)
            if row is None:
                return
            reason = FailureReason.RECOVERY_EXHAUSTED
            message = "the run was taken up again too often without getting anywhere"
            event = run_finished("failed", reason, message)
            await tx.exec(
                SQL.insert_events, tenant_id, run_id, row["event_seq"], [event.type], [event.data]
            )
            await self._close_started(tx, tenant_id, run_id)
            await self._outbox.skip(tx, tenant_id, run_id)
            await self._outbox.finished(
                tx,
                RunEnd(
                    tenant_id=tenant_id,
                    run_id=run_id,
                    tenant=row["tenant"],
                    agent=row["agent"],
                    state="failed",
                    reason=reason,
                    last_event_seq=row["event_seq"],
                ),
            )
            tx.after_commit(lambda: self._wake(run_id, True))

    async def close_left(self, limit: int) -> int:
        """Calls that a finished run left started become unknown; how many runs had any."""
        async with self._database.system() as tx:
            rows = await tx.many(SQL.left_started, limit)
        for row in rows:
            tenant_id, run_id = str(row["tenant_id"]), str(row["id"])
            async with self._database.tenant(tenant_id) as tx:
                await tx.one(SQL.lock_run, tenant_id, run_id)
                await self._close_started(tx, tenant_id, run_id)
        return len(rows)

    async def _close_started(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        rows = await tx.many(SQL.close_started, tenant_id, run_id)
        await self._outbox.report(
            tx,
            tenant_id,
            run_id,
            [(text_or_none(r["approval_id"]), ExecState.UNKNOWN) for r in rows],
        )

    async def prune(self, limit: int) -> int:
        """Delete sent outbox rows and old idempotency records; how many rows."""
        async with self._database.system() as tx:
            deleted = await tx.exec(OUTBOX.prune_outbox, limit)
            return deleted + await tx.exec(SQL.prune_requests, limit)

    async def by_state(self) -> dict[str, int]:
        """How many runs are in each state that is not an end."""
        async with self._database.system() as tx:
            rows = await tx.many(SQL.runs_by_state)
        return {r["state"]: r["runs"] for r in rows}
