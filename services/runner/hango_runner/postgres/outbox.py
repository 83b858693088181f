"""What R tells others: one function a kind of row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hango_platform import clock, ids
from hango_platform.bus import subjects
from hango_platform.outbox import outbox, publish
from hango_platform.outbox.outbox import OutboxRow
from hango_platform.outbox.relay import LEASE
from hango_platform.postgres.queries import load

from hango_runner.agent.state import ExecState
from hango_runner.domain.story import json_object
from hango_runner.postgres.rows import text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hango_platform.outbox.relay import Relay
    from hango_platform.postgres.transaction import Transaction

    from hango_runner.domain.run import RunEnd

    Wake = Callable[[str, bool], None]


SQL = load(__package__)

OPEN, WITHDRAW, REPORT, AUDIT = "open", "withdraw", "report", "audit"

_OPEN_LEASE = timedelta(seconds=3)


class Outbox:
    """Writes rows with the change; the relay sends them."""

    def __init__(self, finished_body: Callable[[RunEnd], bytes]) -> None:
        self._finished_body = finished_body
        self.to_approvals: Relay | None = None
        self.to_bus: Relay | None = None

    async def open_later(
        self, tx: Transaction, tenant_id: str, suspension_id: str, payload: bytes
    ) -> None:
        """S1, should the worker that suspends not come to it itself."""
        row = OutboxRow(
            tenant_id, OPEN, suspension_id, payload, id=ids.derived_id(OPEN, suspension_id)
        )
        await outbox.write(tx, [row], relay=None, lease=_OPEN_LEASE)

    async def withdraw(
        self, tx: Transaction, tenant_id: str, suspension_id: str, payload: bytes
    ) -> None:
        """S4, where A did not answer in time."""
        row = OutboxRow(tenant_id, WITHDRAW, suspension_id, payload)
        await outbox.write(tx, [row], relay=self.to_approvals, lease=LEASE)

    async def report(
        self,
        tx: Transaction,
        tenant_id: str,
        run_id: str,
        calls: Iterable[tuple[str | None, ExecState]],
    ) -> None:
        """S6: what became of calls that have an approval.

        Nobody waits for a report: it is claimed within half a second, with all others of that time.
        """
        rows = [
            OutboxRow(
                tenant_id,
                REPORT,
                approval_id,
                json_object({"run_id": run_id, "state": state.value, "at": _now()}).encode(),
                id=ids.derived_id(REPORT, approval_id, state.value),
            )
            for approval_id, state in calls
            if approval_id is not None
        ]
        await outbox.write(tx, rows, relay=None, lease=timedelta(0))

    async def skip(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Close the calls that the run's end leaves unstarted, and report them."""
        rows = await tx.many(SQL.skip_calls, tenant_id, run_id)
        await self.report(
            tx,
            tenant_id,
            run_id,
            [(text_or_none(r["approval_id"]), ExecState.SKIPPED) for r in rows],
        )

    async def audit(
        self, tx: Transaction, tenant_id: str, records: Sequence[dict[str, Any]]
    ) -> None:
        """Acts of R for A's audit trail."""
        rows = [
            OutboxRow(tenant_id, AUDIT, r["target_id"], json_object({**r, "at": _now()}).encode())
            for r in records
        ]
        await outbox.write(tx, rows, relay=self.to_approvals, lease=LEASE)

    async def finished(self, tx: Transaction, end: RunEnd) -> None:
        """`run.finished`, for subscribers; `run.cancelled` before it where somebody cancelled."""
        kinds = ("run.cancelled", "run.finished") if end.state == "cancelled" else ("run.finished",)
        body = self._finished_body(end)
        rows = [
            OutboxRow(
                end.tenant_id,
                publish.KIND,
                subjects.event(end.tenant, kind),
                body,
                id=ids.derived_id(kind, end.run_id),
            )
            for kind in kinds
        ]
        await outbox.write(tx, rows, relay=self.to_bus, lease=LEASE)


def _now() -> str:
    return clock.now().isoformat()
