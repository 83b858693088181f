"""Writing down attempts to decide that were refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hango_platform import ids
from hango_platform.errors import Conflict, Forbidden, HangoError, InvalidRequest

from hango_approvals.domain.audit import Entry, Outcome, Target

if TYPE_CHECKING:
    from hango_platform.rpc.caller import Principal

    from hango_approvals.domain.attempt import Attempt
    from hango_approvals.domain.suspension import Decided
    from hango_approvals.postgres.store import Store, Work
    from hango_approvals.use_cases.decide import Decide

log = logging.getLogger(__name__)

_SHOWN = 64


class DecideOnRecord:
    """Decides, and audits what was refused: in a second transaction, since the first is gone."""

    def __init__(self, decide: Decide, store: Store) -> None:
        self._decide = decide
        self._store = store

    async def __call__(self, attempt: Attempt, *, by: Principal) -> Decided:
        """What `Decide` promises; and one audit row for a refusal with 403, 409 or 400, unless
        the body could not be read at all.
        """
        try:
            return await self._decide(attempt, by=by)
        except HangoError as refusal:
            _tell(refusal, attempt, by)
            if _is_recorded(refusal):
                async with self._store.tenant(by.tenant_id) as work:
                    entry = await _entry(work, refusal, attempt, by)
                    await work.audit.append(by.tenant_id, [entry])
            raise


def _is_recorded(refusal: HangoError) -> bool:
    unreadable = any(v.pointer == "" for v in refusal.violations)
    return isinstance(refusal, (Forbidden, Conflict, InvalidRequest)) and not unreadable


def _tell(refusal: HangoError, attempt: Attempt, by: Principal) -> None:
    log.info(
        "decision refused",
        extra={
            "run_id": attempt.run_id[:_SHOWN],
            "reason": refusal.reason,
            "decisions": [d.kind.value if d.kind else None for d in attempt.decisions[:_SHOWN]],
            "user_id": by.user_id,
        },
    )


async def _entry(work: Work, refusal: HangoError, attempt: Attempt, by: Principal) -> Entry:
    """On the approval if exactly one is named and exists, else on the run as it was named."""
    detail: dict[str, object] = {"reason": refusal.reason}
    if "state" in refusal.members:
        detail["state"] = refusal.members["state"]
    run_id = attempt.run_id.replace("\x00", "")[:_SHOWN]
    kind, target = Target.RUN, run_id
    decision = attempt.named_once()
    if decision is not None:
        detail["decision"] = decision.kind.value if decision.kind else None
        found = await work.suspensions.named(
            by.tenant_id,
            approval_id=decision.approval_id if ids.is_id(decision.approval_id) else None,
            run_id=attempt.run_id if ids.is_id(attempt.run_id) else None,
            tool_call_id=(decision.tool_call_id or "").replace("\x00", ""),
        )
        if found is not None:
            kind, target = Target.APPROVAL, found.id
            detail |= {"tool_name": found.tool_name, "tool_call_id": found.tool_call_id}
    return Entry(
        action="approval.decide",
        target_kind=kind,
        target_id=target,
        actor_id=by.user_id,
        run_id=run_id,
        outcome=Outcome.DENIED if isinstance(refusal, Forbidden) else Outcome.ERROR,
        detail=detail,
    )
