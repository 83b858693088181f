"""Suspensions and approvals: opening, deciding, closing, reading."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from hango_platform import ids
from hango_platform.postgres.queries import load

from hango_approvals.domain.suspension import Approval, DecisionKind, State, Suspension
from hango_approvals.domain.verdict import CallVerdict, Verdict
from hango_approvals.postgres import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from hango_platform.postgres.transaction import Row, Transaction

    from hango_approvals.domain.suspension import Call, Decided, Filter, Origin, Ruling

SQL = load(__package__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A suspension that is there already. `batch_sha256` is None for a tombstone."""

    state: State
    batch_sha256: bytes | None
    created_at: datetime
    expires_at: datetime | None
    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a decide under this key was, and answered."""

    request_digest: bytes
    suspension_id: str
    resume_event_id: str


@dataclass(frozen=True, slots=True)
class NamedApproval:
    """An approval, as far as an audit row of a refused attempt tells it."""

    id: str
    tool_name: str
    tool_call_id: str


class Suspensions:
    """The statements about suspensions, within one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def open(
        self,
        suspension_id: str,
        origin: Origin,
        calls: Sequence[Call],
        *,
        turn: int,
        batch_sha256: bytes,
        traceparent: str,
        ttl: timedelta,
    ) -> Suspension | None:
        """The new suspension with its approvals; None where one of this id is there already, or
        the tenant is not.
        """
        row = await self._tx.one(
            SQL.open_suspension,
            suspension_id,
            origin.tenant_id,
            origin.run_id,
            origin.gen,
            turn,
            origin.requested_by,
            origin.agent,
            origin.agent_version,
            batch_sha256,
            traceparent,
            ttl,
        )
        if row is None:
            return None
        # Sorted, so that the queue, which is ordered by time and id, shows them in call order.
        approval_ids = sorted(ids.new_id() for _ in calls)
        suspension = Suspension(
            id=suspension_id,
            origin=replace(origin, tenant=row["tenant"]),
            state=State.PENDING,
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            approvals=tuple(
                Approval(i, c, State.PENDING) for i, c in zip(approval_ids, calls, strict=True)
            ),
            traceparent=traceparent,
        )
        await self._insert_approvals(suspension)
        return suspension

    async def _insert_approvals(self, suspension: Suspension) -> None:
        calls = [a.call for a in suspension.approvals]
        await self._tx.exec(
            SQL.insert_approvals,
            suspension.id,
            suspension.origin.tenant_id,
            suspension.origin.run_id,
            suspension.created_at,
            [a.id for a in suspension.approvals],
            [c.position for c in calls],
            [c.turn for c in calls],
            [c.subagent_path for c in calls],
            [c.call_index for c in calls],
            [c.entry for c in calls],
            [c.tool_call_id for c in calls],
            [c.tool_name for c in calls],
            [c.kind.value for c in calls],
            [c.arguments for c in calls],
            [c.arguments_sha256 for c in calls],
            [",".join(c.allowed) for c in calls],
            [c.rule.decode() for c in calls],
            [c.parameters.decode() for c in calls],
            [c.input for c in calls],
            [c.subagent_call_id for c in calls],
        )

    async def opened(self, tenant_id: str, suspension_id: str) -> Opened | None:
        """What stands under this id."""
        row = await self._tx.one(SQL.read_opened, tenant_id, suspension_id)
        if row is None:
            return None
        found = await self._tx.many(SQL.suspension_approvals, tenant_id, suspension_id)
        return Opened(
            State(row["state"]),
            row["batch_sha256"],
            row["created_at"],
            row["expires_at"],
            tuple(rows.approval(r) for r in found),
        )

    async def lock_latest(self, tenant_id: str, run_id: str) -> Suspension | None:
        """The run's last suspension, locked, its approvals not read yet."""
        row = await self._tx.one(SQL.lock_latest_suspension, tenant_id, run_id)
        return rows.suspension(row) if row is not None else None

    async def lock(self, tenant_id: str, suspension_id: str) -> Suspension | None:
        """One suspension, locked, its approvals not read yet."""
        row = await self._tx.one(SQL.lock_suspension, tenant_id, suspension_id)
        return rows.suspension(row) if row is not None else None

    async def lock_due(self) -> Suspension | None:
        """A pending suspension that is past its deadline and that nobody holds."""
        row = await self._tx.one(SQL.lock_due_suspension)
        return rows.suspension(row) if row is not None else None

    async def with_approvals(self, suspension: Suspension, *, lock: bool = False) -> Suspension:
        """The suspension with its approvals, locked if they are to be changed."""
        query = SQL.lock_approvals if lock else SQL.suspension_approvals
        found = await self._tx.many(query, suspension.origin.tenant_id, suspension.id)
        return replace(suspension, approvals=tuple(rows.approval(r) for r in found))

    async def read(self, tenant_id: str, suspension_id: str) -> Suspension | None:
        """A suspension with its approvals."""
        row = await self._tx.one(SQL.read_suspension, tenant_id, suspension_id)
        return await self.with_approvals(rows.suspension(row)) if row is not None else None

    async def close_as_decided(
        self, suspension: Suspension, rulings: Sequence[Ruling], *, by: str
    ) -> Suspension | None:
        """The suspension, decided and stored; None where its deadline has passed meanwhile."""
        tenant_id = suspension.origin.tenant_id
        row = await self._tx.one(SQL.close_as_decided, tenant_id, suspension.id, by)
        if row is None:
            return None
        decided = suspension.decided(rulings, by=by, at=row["closed_at"])
        await self._tx.exec(
            SQL.decide_approvals,
            tenant_id,
            suspension.id,
            by,
            row["closed_at"],
            [a.id for a in decided.approvals],
            [r.decision.value for r in rulings],
            [r.args for r in rulings],
            [r.args_sha256 for r in rulings],
            [r.message for r in rulings],
            [r.value for r in rulings],
        )
        return decided

    async def close(
        self, suspension: Suspension, state: State, *, by: str | None
    ) -> Suspension | None:
        """The locked suspension and its approvals, expired or withdrawn; None where it is not
        pending.
        """
        tenant_id = suspension.origin.tenant_id
        row = await self._tx.one(
            SQL.close_suspension, tenant_id, suspension.id, state.value, by or None
        )
        if row is None:
            return None
        full = await self.with_approvals(suspension, lock=True)
        await self._tx.exec(SQL.close_approvals, tenant_id, suspension.id, state.value)
        return full.closed(state, row["closed_at"])

    async def insert_tombstone(self, suspension_id: str, origin: Origin, *, by: str | None) -> bool:
        """Withdraw what was never opened; False where it was."""
        row = await self._tx.one(
            SQL.insert_tombstone,
            suspension_id,
            origin.tenant_id,
            origin.run_id,
            origin.gen,
            by or None,
        )
        return row is not None

    async def verdicts(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """How these suspensions stand, of any tenant; unknown ones are left out."""
        found = await self._tx.many(SQL.verdicts, suspension_ids)
        return [_verdict(list(group)) for _, group in groupby(found, lambda r: r["suspension_id"])]

    async def earlier_state(
        self, suspension: Suspension, approval_ids: Sequence[str], tool_call_ids: Sequence[str]
    ) -> State | None:
        """The state of another suspension of the same run that one of these approvals or calls is
        of.
        """
        row = await self._tx.one(
            SQL.earlier_suspension,
            suspension.origin.tenant_id,
            suspension.origin.run_id,
            suspension.id,
            approval_ids,
            tool_call_ids,
        )
        return State(row["state"]) if row is not None else None

    async def named(
        self, tenant_id: str, *, approval_id: str | None, run_id: str | None, tool_call_id: str
    ) -> NamedApproval | None:
        """The one approval that an attempt named, by its id or by run and call; None where there
        is none, or more than one.
        """
        found = await self._tx.many(
            SQL.named_approval, tenant_id, approval_id, run_id, tool_call_id
        )
        if len(found) != 1:
            return None
        return NamedApproval(str(found[0]["id"]), found[0]["tool_name"], found[0]["tool_call_id"])

    async def recall(self, tenant_id: str, user_id: str, route: str, key: str) -> Remembered | None:
        """What was answered under this key within a day."""
        row = await self._tx.one(SQL.recall, tenant_id, user_id, route, key)
        if row is None:
            return None
        return Remembered(
            row["request_digest"], str(row["suspension_id"]), str(row["resume_event_id"])
        )

    async def remember(
        self, user_id: str, route: str, key: str, request_digest: bytes, answer: Decided
    ) -> None:
        """Keep an answer for a day."""
        await self._tx.exec(
            SQL.remember,
            answer.suspension.origin.tenant_id,
            user_id,
            route,
            key,
            request_digest,
            answer.suspension.id,
            answer.resume_event_id,
        )

    async def queue(
        self, tenant_id: str, wanted: Filter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Suspension]:
        """Approvals, oldest first, each in a suspension of its own that holds it alone."""
        found = await self._tx.many(
            SQL.list_approvals,
            tenant_id,
            wanted.requested_by,
            wanted.state.value if wanted.state else None,
            wanted.tool_name,
            wanted.agent,
            wanted.run_id,
            after[0] if after else None,
            after[1] if after else None,
            limit,
        )
        return [rows.suspension(r, [r]) for r in found]

    async def find(self, tenant_id: str, approval_id: str, requested_by: str | None) -> str | None:
        """The id of the suspension of an approval that the caller may see."""
        row = await self._tx.one(SQL.find_approval, tenant_id, approval_id, requested_by)
        return str(row["suspension_id"]) if row is not None else None

    async def knows_run(self, tenant_id: str, run_id: str, requested_by: str | None) -> bool:
        """Whether the run has a suspension that the caller may see."""
        row = await self._tx.one(SQL.run_is_known, tenant_id, run_id, requested_by)
        return row is not None and row["known"]


def _verdict(group: Sequence[Row]) -> Verdict:
    first = group[0]
    return Verdict(
        suspension_id=str(first["suspension_id"]),
        state=State(first["state"]),
        opened_at=first["created_at"] if first["opened"] else None,
        expires_at=first["expires_at"],
        closed_at=first["closed_at"],
        calls=tuple(_call_verdict(r) for r in group if r["id"] is not None),
    )


def _call_verdict(row: Row) -> CallVerdict:
    return CallVerdict(
        approval_id=str(row["id"]),
        subagent_path=row["subagent_path"],
        call_index=row["call_index"],
        entry=row["entry"],
        decision=DecisionKind(row["decision"]) if row["decision"] is not None else None,
        args=row["args"],
        message=row["decision_message"],
        value=row["decision_value"],
        decided_by=rows.text_or_none(row["decided_by"]),
    )
