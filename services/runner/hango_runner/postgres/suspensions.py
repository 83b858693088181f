"""R's side of a suspension in PostgreSQL: T2b, T3, T4, T4w."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.postgres.queries import load

from hango_runner.agent.calls import digest
from hango_runner.agent.state import ExecState, Suspension
from hango_runner.domain.run import FailureReason, RunEnd, RunState
from hango_runner.domain.story import Event, Raw, json_object, rfc3339, run_finished
from hango_runner.domain.verdict import IncompleteVerdict, VerdictState
from hango_runner.postgres import outbox as kinds
from hango_runner.postgres.rows import call_of, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row, Transaction

    from hango_runner.agent.state import Call
    from hango_runner.domain.verdict import CallVerdict, Verdict
    from hango_runner.postgres.outbox import Outbox, Wake

SQL = load(__package__)


class SqlSuspensions:
    """Each method is one transaction, guarded by the suspension's id: the race is lost where it
    is another's.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        wake: Wake,
        open_payload: Callable[[Suspension], bytes],
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._wake = wake
        self._open_payload = open_payload

    async def opened(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T2b."""
        async with self._database.tenant(tenant_id) as tx:
            run = await tx.one(
                SQL.open_run,
                tenant_id,
                run_id,
                verdict.suspension_id,
                verdict.opened_at,
                len(verdict.calls) + 1,
            )
            if run is None:
                return False
            calls = await _name(tx, tenant_id, run, verdict)
            await _tell(tx, run, _requested(calls, verdict))
            await tx.exec(SQL.settle_outbox, tenant_id, kinds.OPEN, verdict.suspension_id)
            tx.after_commit(lambda: self._wake(run_id, True))
            if faults.ACTIVE:
                await faults.reach("before_opened")
        if faults.ACTIVE:
            await faults.reach("after_opened")
        return True

    async def resume(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T3. Nothing after it asks A: a decided suspension never changes.

        Raises IncompleteVerdict, and changes nothing, unless every call of it has its decision.
        """
        async with self._database.tenant(tenant_id) as tx:
            run = await tx.one(SQL.lock_awaiting, tenant_id, run_id, verdict.suspension_id)
            if run is None:
                return False
            calls = await _copy(tx, tenant_id, run, verdict.calls)
            if not calls or len(calls) != len(verdict.calls):
                raise IncompleteVerdict(verdict.suspension_id)
            events = _requested_if_unopened(run, calls, verdict)
            events += _told(calls, verdict, "approval.decided")
            events.append(_event("run.resumed", suspension_id=verdict.suspension_id))
            await tx.exec(SQL.resume_run, tenant_id, run_id, verdict.opened_at, len(events))
            await _tell(tx, run, events)
            skipped = [v for v in verdict.calls if v.decision in ("reject", "respond")]
            await self._outbox.report(
                tx, tenant_id, run_id, [(v.approval_id, ExecState.SKIPPED) for v in skipped]
            )
            tx.after_commit(lambda: self._wake(run_id, False))
            if faults.ACTIVE:
                await faults.reach("before_resume")
        if faults.ACTIVE:
            await faults.reach("after_resume")
        return True

    async def end(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T4, T4w."""
        expired = verdict.state is VerdictState.EXPIRED
        state = RunState.FAILED if expired else RunState.CANCELLED
        reason = FailureReason.APPROVAL_EXPIRED if expired else None
        message = "approval expired" if expired else None
        async with self._database.tenant(tenant_id) as tx:
            run = await tx.one(SQL.lock_awaiting, tenant_id, run_id, verdict.suspension_id)
            if run is None:
                return False
            calls = await _name(tx, tenant_id, run, verdict)
            events = _requested_if_unopened(run, calls, verdict) if expired else []
            if expired or run["suspension_opened_at"] is not None:
                kind = "approval.expired" if expired else "approval.withdrawn"
                events += _told(calls, verdict, kind)
            events.append(run_finished(state, reason, message))
            await tx.one(SQL.end_awaiting, tenant_id, run_id, state, reason, message, len(events))
            await _tell(tx, run, events)
            await self._outbox.skip(tx, tenant_id, run_id)
            await self._outbox.finished(
                tx,
                RunEnd(
                    tenant_id=tenant_id,
                    run_id=run_id,
                    tenant=run["tenant"],
                    agent=run["agent"],
                    state=state,
                    reason=reason,
                    last_event_seq=run["next_event_seq"] + len(events) - 1,
                ),
            )
            tx.after_commit(lambda: self._wake(run_id, True))
            if faults.ACTIVE:
                await faults.reach("before_end")
        if faults.ACTIVE:
            await faults.reach("after_end")
        return True

    async def awaiting(
        self, limit: int, after: str | None
    ) -> list[tuple[str, str, str, datetime | None]]:
        """Paused runs of all tenants, by id."""
        async with self._database.system() as tx:
            rows = await tx.many(SQL.awaiting_runs, limit, after)
        return [
            (str(r["tenant_id"]), str(r["id"]), str(r["suspension_id"]), r["suspension_opened_at"])
            for r in rows
        ]

    async def open_request(self, tenant_id: str, run_id: str, suspension_id: str) -> bytes | None:
        """S1's request from the rows: the same content as at T2, since rulings never change."""
        async with self._database.tenant(tenant_id) as tx:
            run = await tx.one(SQL.lock_awaiting, tenant_id, run_id, suspension_id)
            if run is None:
                return None
            calls = await _gated_calls(tx, tenant_id, run)
        return self._open_payload(
            Suspension(
                id=suspension_id,
                run_id=run_id,
                tenant_id=tenant_id,
                gen=run["gen"],
                turn=run["turn"] - 1,
                agent=run["agent"],
                agent_version=run["agent_version"],
                requested_by=str(run["created_by"]),
                calls=tuple(calls),
            )
        )


async def _gated_calls(tx: Transaction, tenant_id: str, run: Row) -> list[Call]:
    rows = await tx.many(SQL.gated_calls, tenant_id, run["id"])
    return [call_of(r) for r in rows]


async def _name(tx: Transaction, tenant_id: str, run: Row, verdict: Verdict) -> list[Call]:
    """The suspension's calls, in call order, with their approvals."""
    rows = await tx.many(
        SQL.name_approvals,
        tenant_id,
        run["id"],
        [v.subagent_path for v in verdict.calls],
        [v.call_index for v in verdict.calls],
        [v.approval_id for v in verdict.calls],
    )
    return sorted(map(call_of, rows), key=lambda c: c.key)


def _event(kind: str, **members: object) -> Event:
    return Event(kind, json_object(members))


def _by_place(verdict: Verdict) -> dict[tuple[str, int], CallVerdict]:
    return {(v.subagent_path, v.call_index): v for v in verdict.calls}


def _requested(calls: Sequence[Call], verdict: Verdict) -> list[Event]:
    """One approval.requested a call, in call order, then run.suspended."""
    verdicts = _by_place(verdict)
    expires_at = None if verdict.expires_at is None else rfc3339(verdict.expires_at)
    events = [
        Event(
            "approval.requested",
            json_object(
                {
                    "approval_id": verdicts[c.key.subagent_path, c.key.call_index].approval_id,
                    "suspension_id": verdict.suspension_id,
                    "turn": c.key.turn,
                    "tool_call_id": c.tool_call_id,
                    "tool_name": c.tool_name,
                    "kind": c.kind.value,
                    "arguments": Raw(c.arguments.decode()),
                    "allowed_decisions": list(c.allowed),
                    "expires_at": expires_at,
                    "subagent_call_id": c.subagent_call_id,
                }
            ),
        )
        for c in calls
    ]
    events.append(
        Event(
            "run.suspended",
            json_object({"suspension_id": verdict.suspension_id, "pending_approvals": len(calls)}),
        )
    )
    return events


def _requested_if_unopened(run: Row, calls: Sequence[Call], verdict: Verdict) -> list[Event]:
    """T2b's part where it was not done: no story has a decision without its request."""
    return _requested(calls, verdict) if run["suspension_opened_at"] is None else []


def _told(calls: Sequence[Call], verdict: Verdict, kind: str) -> list[Event]:
    verdicts = _by_place(verdict)
    events = []
    for c in calls:
        v = verdicts.get((c.key.subagent_path, c.key.call_index))
        members = {
            "approval_id": v.approval_id if v is not None else text_or_none(c.approval_id),
            "suspension_id": verdict.suspension_id,
            "tool_call_id": c.tool_call_id,
            "tool_name": c.tool_name,
            "subagent_call_id": c.subagent_call_id,
        }
        if kind == "approval.decided" and v is not None:
            members |= {"decision": v.decision, "decided_by": v.decided_by}
        events.append(Event(kind, json_object(members)))
    return events


async def _copy(
    tx: Transaction, tenant_id: str, run: Row, verdicts: Sequence[CallVerdict]
) -> list[Call]:
    """The suspension's calls, in call order, with their decisions. Raises IncompleteVerdict."""
    if any(v.decision is None for v in verdicts):
        raise IncompleteVerdict(str(run["id"]))
    rows = await tx.many(
        SQL.copy_decisions,
        tenant_id,
        run["id"],
        [v.subagent_path for v in verdicts],
        [v.call_index for v in verdicts],
        [v.approval_id for v in verdicts],
        [v.decision for v in verdicts],
        [v.raw for v in verdicts],
        [None if v.raw is None else digest(v.raw) for v in verdicts],
        [v.message for v in verdicts],
        [v.value for v in verdicts],
        [v.decided_by for v in verdicts],
    )
    return sorted(map(call_of, rows), key=lambda c: c.key)


async def _tell(tx: Transaction, run: Row, events: Sequence[Event]) -> None:
    await tx.exec(
        SQL.insert_events,
        run["tenant_id"],
        run["id"],
        run["next_event_seq"],
        [e.type for e in events],
        [e.data for e in events],
    )
