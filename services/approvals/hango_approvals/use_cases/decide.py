"""Deciding (S2): a person's ruling on every pending call of a run, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hango_platform import faults, ids
from hango_platform.errors import (
    ApprovalsClosed,
    IdempotencyMismatch,
    InvalidRequest,
    NotAnApprover,
    NotFound,
    SecondPartyRequired,
    Unauthenticated,
    Violation,
)

from hango_approvals.domain.audit import Entry, Target
from hango_approvals.domain.deciding import check_shape, rule_on
from hango_approvals.domain.events import ApprovalChanged, EventKind, RunResume
from hango_approvals.domain.suspension import Decided, State
from hango_approvals.use_cases import close

if TYPE_CHECKING:
    from hango_platform.rpc.caller import Principal
    from hango_platform.telemetry.metrics import Metrics

    from hango_approvals.domain.attempt import Attempt
    from hango_approvals.domain.suspension import Suspension
    from hango_approvals.postgres.directory import Member
    from hango_approvals.postgres.store import Store, Work
    from hango_approvals.runs_client import RunsClient

log = logging.getLogger(__name__)

_MAX_KEY = 255


class Decide:
    """Records decisions."""

    def __init__(self, store: Store, runs: RunsClient, metrics: Metrics) -> None:
        self._store = store
        self._runs = runs
        self._metrics = metrics

    async def __call__(self, attempt: Attempt, *, by: Principal) -> Decided:
        """Record a ruling on every pending call of a run, once.

        Raises, checked in this order (contract, section 5): Unauthenticated; NotAnApprover,
        SecondPartyRequired; NotFound; InvalidRequest for the body's shape; IdempotencyMismatch;
        ApprovalsClosed; then what `rule_on` raises. After any of them nothing has changed, but
        that a suspension past its deadline is expired.
        """
        answer: Decided | Suspension | None = None
        async with self._store.tenant(by.tenant_id) as work:
            member = await _approver(work, by)
            if not ids.is_id(attempt.run_id):
                raise InvalidRequest(violations=[Violation("/run_id", "must be a UUID")])
            suspension = await work.suspensions.lock_latest(by.tenant_id, attempt.run_id)
            if suspension is not None:
                _check_second_party(member, suspension.origin.requested_by, by)
                _check_body(attempt)
                if (replay := await _replay(work, attempt, by)) is not None:
                    return replay
                answer = await _decide(work, suspension, attempt, by)
                if faults.ACTIVE:
                    await faults.reach("before_decide")
        if faults.ACTIVE:
            await faults.reach("after_decide")
        match answer:
            case None:
                raise await self._nothing_to_decide(attempt, member, by)
            case Decided():
                self._tell(answer, by)
                return answer
            case _:
                close.count_expired(self._metrics, answer)
                raise ApprovalsClosed(state=State.EXPIRED.value)

    async def _nothing_to_decide(
        self, attempt: Attempt, member: Member, by: Principal
    ) -> ApprovalsClosed:
        """The refusal for a run without a suspension here; whether there is one, R knows."""
        run = await self._runs.find(attempt.run_id)
        if run is None or run.tenant_id != by.tenant_id:
            raise NotFound
        _check_second_party(member, run.created_by, by)
        _check_body(attempt)
        return ApprovalsClosed(state=run.state)

    def _tell(self, answer: Decided, by: Principal) -> None:
        suspension = answer.suspension
        for a in suspension.approvals:
            decision = a.ruling.decision.value if a.ruling is not None else ""
            waited = (suspension.closed_at or suspension.created_at) - suspension.created_at
            self._metrics.approvals_decisions.labels(decision, a.call.tool_name).inc()
            self._metrics.approvals_wait_time.observe(waited.total_seconds())
            log.info(
                "approval decided",
                extra={
                    "run_id": suspension.origin.run_id,
                    "approval_id": a.id,
                    "tool": a.call.tool_name,
                    "tool_call_id": a.call.tool_call_id,
                    "decision": decision,
                    "decided_by": by.user_id,
                },
            )


async def _approver(work: Work, by: Principal) -> Member:
    """The caller as the directory knows him now, in the transaction that uses his right."""
    member = await work.directory.member(by.tenant_id, by.user_id)
    if member is None or member.disabled:
        raise Unauthenticated
    if not member.role.may_decide:
        raise NotAnApprover
    return member


def _check_second_party(member: Member, requested_by: str, by: Principal) -> None:
    if member.require_second_party and requested_by == by.user_id:
        raise SecondPartyRequired


def _check_body(attempt: Attempt) -> None:
    if attempt.violations:
        raise InvalidRequest(violations=attempt.violations)
    if len(attempt.idempotency_key) > _MAX_KEY or "\x00" in attempt.idempotency_key:
        why = f"must be at most {_MAX_KEY} characters, and none of them NUL"
        raise InvalidRequest(violations=[Violation("/idempotency_key", why)])
    check_shape(attempt.decisions)


def _route(attempt: Attempt) -> str:
    return f"decide/{attempt.run_id}"


async def _replay(work: Work, attempt: Attempt, by: Principal) -> Decided | None:
    """The first answer again, where this caller was answered under this key before."""
    if not attempt.idempotency_key:
        return None
    known = await work.suspensions.recall(
        by.tenant_id, by.user_id, _route(attempt), attempt.idempotency_key
    )
    if known is None:
        return None
    if known.request_digest != attempt.request_digest:
        raise IdempotencyMismatch
    suspension = await work.suspensions.read(by.tenant_id, known.suspension_id)
    if suspension is None:
        return None
    return Decided(suspension, known.resume_event_id).as_first_answered()


async def _decide(
    work: Work, suspension: Suspension, attempt: Attempt, by: Principal
) -> Decided | Suspension:
    """The decided suspension, stored; or the expired one, where its deadline has passed."""
    pending = suspension.state is State.PENDING
    if pending and suspension.late:
        return await close.expire(work, suspension)
    full = await work.suspensions.with_approvals(suspension, lock=pending)
    rulings = rule_on(full, attempt.decisions, earlier=await _earlier(work, full, attempt))
    closed = await work.suspensions.close_as_decided(full, rulings, by=by.user_id)
    if closed is None or closed.closed_at is None:
        return await close.expire(work, suspension)
    resume = RunResume(closed, closed.closed_at)
    answer = Decided(closed, resume.id)
    if attempt.idempotency_key:
        await work.suspensions.remember(
            by.user_id, _route(attempt), attempt.idempotency_key, attempt.request_digest, answer
        )
    await work.audit.append(by.tenant_id, _entries(closed, by))
    await work.announce([*ApprovalChanged.of(EventKind.DECIDED, closed, closed.closed_at), resume])
    return answer


async def _earlier(work: Work, suspension: Suspension, attempt: Attempt) -> State | None:
    """How the earlier suspension ended that a decision is meant for: one that comes late must not
    look like one that makes no sense.
    """
    named = {d.approval_id for d in attempt.decisions if ids.is_id(d.approval_id)}
    unknown = named - {a.id for a in suspension.approvals}
    called = {d.tool_call_id for d in attempt.decisions if d.tool_call_id}
    unknown_calls = {c for c in called if "\x00" not in c} - {
        a.call.tool_call_id for a in suspension.approvals
    }
    if not unknown and not unknown_calls:
        return None
    return await work.suspensions.earlier_state(suspension, sorted(unknown), sorted(unknown_calls))


def _entries(suspension: Suspension, by: Principal) -> list[Entry]:
    return [
        Entry(
            action="approval.decide",
            target_kind=Target.APPROVAL,
            target_id=a.id,
            actor_id=by.user_id,
            run_id=suspension.origin.run_id,
            detail={
                "decided_by": by.user_id,
                "decision": a.ruling.decision.value,
                "tool_name": a.call.tool_name,
                "tool_call_id": a.call.tool_call_id,
                "arguments_sha256": a.call.arguments_sha256,
                "decision_args_sha256": a.ruling.args_sha256,
            },
        )
        for a in suspension.approvals
        if a.ruling is not None
    ]
