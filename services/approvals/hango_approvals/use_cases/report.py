"""Taking what the runner reports (S6): executions, and acts of its own for the audit trail."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from hango_approvals.domain.audit import Entry, Outcome, Target
from hango_approvals.domain.suspension import EXECUTION_TRANSITIONS, Execution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hango_approvals.domain.suspension import Report
    from hango_approvals.postgres.maintenance import Reported
    from hango_approvals.postgres.store import Store

log = logging.getLogger(__name__)

_OUTCOMES = {
    Execution.SUCCEEDED: Outcome.OK,
    Execution.SKIPPED: Outcome.OK,
    Execution.FAILED: Outcome.ERROR,
    Execution.UNKNOWN: Outcome.ERROR,
}


class ReportExecutions:
    """Takes reports of executions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, reports: Sequence[Report]) -> None:
        """Move approvals forward, and audit each end that a call comes to.

        Late, repeated and unknown reports change nothing. A call whose outcome was unknown comes
        to a second end when it is learnt.
        """
        async with self._store.system() as work:
            known = {
                r.id: r
                for r in await work.maintenance.lock_reported([r.approval_id for r in reports])
            }
            reached: dict[str, tuple[Execution, datetime]] = {}
            entries: dict[str, list[Entry]] = defaultdict(list)
            for report in reports:
                about = known.get(report.approval_id)
                if about is None:
                    log.warning(
                        "unknown approval reported", extra={"approval_id": report.approval_id}
                    )
                    continue
                now, _ = reached.get(about.id, (about.execution, report.at))
                if report.state not in EXECUTION_TRANSITIONS[now]:
                    continue
                reached[about.id] = (report.state, report.at)
                if report.state in _OUTCOMES:
                    entries[about.tenant_id].append(_entry(about, report))
            if reached:
                await work.maintenance.set_executions(reached)
            # By tenant in one order: two reports may be about the same tenants.
            for tenant_id in sorted(entries):
                await work.audit.append_new(tenant_id, entries[tenant_id])


def _entry(about: Reported, report: Report) -> Entry:
    return Entry(
        id=report.event_id,
        action="approval.execute",
        target_kind=Target.APPROVAL,
        target_id=about.id,
        run_id=about.run_id,
        outcome=_OUTCOMES[report.state],
        at=report.at,
        trace_id=report.trace_id,
        detail={
            "state": report.state.value,
            "tool_name": about.tool_name,
            "tool_call_id": about.tool_call_id,
            "arguments_sha256": about.digest,
        },
    )


class RecordAudit:
    """Takes rows for the trail."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Write entries, each with its tenant; those that were written before, and those of a
        tenant that there is not, are left out.
        """
        by_tenant: dict[str, list[Entry]] = defaultdict(list)
        for tenant_id, entry in entries:
            by_tenant[tenant_id].append(entry)
        async with self._store.system() as work:
            for tenant_id in sorted(by_tenant):
                try:
                    await work.audit.append_new(tenant_id, by_tenant[tenant_id])
                except LookupError:
                    log.exception("audit rows for an unknown tenant")
