"""Runs in PostgreSQL, as people start, read and cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
from hango_platform.errors import (
    InvalidRequest,
    NotFound,
    RunFinished,
    ThreadBusy,
    Violation,
)
from hango_platform.ids import new_id
from hango_platform.postgres.queries import load
from hango_platform.telemetry import trace

from hango_runner.domain.run import RunEnd, RunState
from hango_runner.domain.story import Event, json_object, message_created, run_finished
from hango_runner.domain.verdict import VerdictState
from hango_runner.postgres import repeats
from hango_runner.postgres.rows import call_of, spec_of
from hango_runner.postgres.views import run_view
from hango_runner.postgres.visible import only_of, visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row, Transaction
    from hango_platform.rpc.caller import Principal

    from hango_runner.domain.run import Idempotency, NewRun, RunView
    from hango_runner.domain.verdict import Withdrawal
    from hango_runner.postgres.outbox import Outbox, Wake

SQL = load(__package__)


class SqlRuns:
    """Each method is one transaction. `withdraw_payload` makes what the relay hands to A (S4)."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        wake: Wake,
        withdraw_payload: Callable[[str, str, str, int, str], bytes],
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._wake = wake
        self._withdraw_payload = withdraw_payload

    async def start(
        self,
        run: NewRun,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes:
        """T0."""
        async with self._database.tenant(by.tenant_id) as tx:
            if (earlier := await repeats.begin(tx, by, repeat)) is not None:
                return earlier
            view = run_view(await self._insert(tx, run, by))
            await repeats.end(tx, by, repeat, encode(view))
            tx.after_commit(lambda: self._wake(run.id, False))
        return view

    async def _insert(self, tx: Transaction, run: NewRun, by: Principal) -> Row:
        agent = await tx.one(SQL.newest_agent, by.tenant_id, run.agent)
        if agent is None or agent["deleted_at"] is not None:
            msg = f"there is no agent {run.agent}"
            raise NotFound(msg)
        if run.thread_id is not None:
            await _enter_thread(tx, run, run.thread_id, by)
        try:
            return await tx.one(
                SQL.insert_run,
                run.id,
                by.tenant_id,
                by.tenant,
                run.agent,
                agent["version"],
                run.thread_id,
                spec_of(agent["spec"]).lane,
                run.metadata,
                by.user_id,
                trace.traceparent(),
                run.input,
                message_created(1, "user", run.input).data,
                new_id(),
            )
        except asyncpg.UniqueViolationError:
            raise ThreadBusy from None

    async def get(self, run_id: str, by: Principal) -> RunView | None:
        """The run, if this user may see it."""
        async with self._database.tenant(by.tenant_id) as tx:
            row = await tx.one(SQL.get_run, by.tenant_id, run_id)
        return run_view(row) if row is not None and visible(row, by) else None

    async def list_page(
        self,
        by: Principal,
        *,
        state: RunState | None,
        agent: str | None,
        thread_id: str | None,
        after: tuple[datetime, str] | None,
        limit: int,
    ) -> list[RunView]:
        """Runs that this user may see, newest first."""
        states, opened = _state_filter(state)
        time, run_id = after or (None, None)
        async with self._database.tenant(by.tenant_id) as tx:
            rows = await tx.many(
                SQL.list_runs,
                by.tenant_id,
                only_of(by),
                states,
                agent,
                thread_id,
                time,
                run_id,
                limit,
                opened,
            )
        return [run_view(r) for r in rows]

    async def earlier(self, by: Principal, repeat: Idempotency) -> bytes | None:
        """The answer to the first request with this key."""
        async with self._database.tenant(by.tenant_id) as tx:
            return await repeats.earlier(tx, by, repeat)

    async def cancel(
        self,
        run_id: str,
        by: Principal,
        withdrawal: Withdrawal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes | None:
        """T5."""
        async with self._database.tenant(by.tenant_id) as tx:
            run = await tx.one(SQL.lock_run, by.tenant_id, run_id)
            if run is None or not visible(run, by):
                raise NotFound
            if (earlier := await repeats.begin(tx, by, repeat)) is not None:
                return earlier
            if RunState(run["state"]).over:
                raise RunFinished(state=run["state"])
            suspension_id = None if run["suspension_id"] is None else str(run["suspension_id"])
            if suspension_id not in (None, withdrawal.suspension_id) and not withdrawal.silent:
                # It has paused (again) meanwhile: that is withdrawn first (suspend.pml, W_T5ID).
                return None
            if suspension_id is not None and withdrawal.silent:
                payload = self._withdraw_payload(
                    by.tenant_id, run_id, suspension_id, run["gen"], by.user_id
                )
                await self._outbox.withdraw(tx, by.tenant_id, suspension_id, payload)
            await self._end_as_cancelled(tx, run, withdrawal)
            view = run_view(await tx.one(SQL.get_run, by.tenant_id, run_id))
            await repeats.end(tx, by, repeat, encode(view))
            tx.after_commit(lambda: self._wake(run_id, True))
        return view

    async def _end_as_cancelled(self, tx: Transaction, run: Row, withdrawal: Withdrawal) -> None:
        tenant_id, run_id = str(run["tenant_id"]), str(run["id"])
        events = await _withdrawn_events(tx, run, withdrawal)
        events.append(run_finished("cancelled"))
        await tx.one(SQL.cancel_run, tenant_id, run_id, len(events))
        await tx.exec(
            SQL.insert_events,
            tenant_id,
            run_id,
            run["next_event_seq"],
            [e.type for e in events],
            [e.data for e in events],
        )
        await self._outbox.skip(tx, tenant_id, run_id)
        await self._outbox.finished(
            tx,
            RunEnd(
                tenant_id=tenant_id,
                run_id=run_id,
                tenant=run["tenant"],
                agent=run["agent"],
                state="cancelled",
                reason=None,
                last_event_seq=run["next_event_seq"] + len(events) - 1,
            ),
        )


async def _withdrawn_events(tx: Transaction, run: Row, withdrawal: Withdrawal) -> list[Event]:
    """`approval.withdrawn` a call, where it was requested and nobody has decided before."""
    requested = (
        run["state"] == RunState.AWAITING_APPROVAL and run["suspension_opened_at"] is not None
    )
    if not requested or withdrawal.state not in (None, VerdictState.WITHDRAWN):
        return []
    rows = await tx.many(SQL.gated_calls, run["tenant_id"], run["id"])
    return [
        Event(
            "approval.withdrawn",
            json_object(
                {
                    "approval_id": c.approval_id,
                    "tool_call_id": c.tool_call_id,
                    "tool_name": c.tool_name,
                }
            ),
        )
        for c in map(call_of, rows)
    ]


def _state_filter(state: RunState | None) -> tuple[list[str] | None, bool | None]:
    """A run that waits unopened reads as running, so both filters must know."""
    match state:
        case None:
            return None, None
        case RunState.RUNNING:
            return [RunState.RUNNING, RunState.AWAITING_APPROVAL], False
        case RunState.AWAITING_APPROVAL:
            return [state], True
        case _:
            return [state], None


async def _enter_thread(tx: Transaction, run: NewRun, thread_id: str, by: Principal) -> None:
    args = (by.tenant_id, thread_id, run.agent, by.user_id)
    thread = await tx.one(SQL.claim_thread, *args) or await tx.one(SQL.claim_thread, *args)
    if thread is None or not visible(thread, by):
        msg = "there is no such thread"
        raise NotFound(msg)
    if thread["agent"] != run.agent:
        msg = "the thread belongs to another agent"
        raise InvalidRequest(
            msg, violations=[Violation("/agent", f"must be {thread['agent']}, the thread's agent")]
        )
