"""Rows as the domain knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.rpc.caller import Role

from hango_approvals.domain.audit import Record
from hango_approvals.domain.directory import ApiKey, Tenant, User
from hango_approvals.domain.suspension import (
    Approval,
    ApprovalKind,
    Call,
    DecisionKind,
    Execution,
    Origin,
    Ruling,
    State,
    Suspension,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.postgres.transaction import Row


def text_or_none(value: object) -> str | None:
    """An id of asyncpg's own type as text."""
    return None if value is None else str(value)


def suspension(row: Row, approvals: Sequence[Row] = ()) -> Suspension:
    """A suspension with its approvals. A tombstone has no agent, and nobody who asked."""
    return Suspension(
        id=str(row["suspension_id"]),
        origin=Origin(
            tenant_id=str(row["tenant_id"]),
            tenant=row["tenant"],
            run_id=str(row["run_id"]),
            gen=row["gen"],
            requested_by=text_or_none(row["requested_by"]) or "",
            agent=row["agent"] or "",
            agent_version=row["agent_version"] or 0,
        ),
        state=State(row["suspension_state"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        approvals=tuple(approval(r) for r in approvals),
        closed_at=row["closed_at"],
        traceparent=row["traceparent"],
        late=row["late"],
    )


def approval(row: Row) -> Approval:
    """One approval."""
    return Approval(
        id=str(row["id"]),
        call=Call(
            position=row["position"],
            subagent_path=row["subagent_path"],
            turn=row["turn"],
            call_index=row["call_index"],
            entry=row["entry"],
            tool_call_id=row["tool_call_id"],
            tool_name=row["tool_name"],
            kind=ApprovalKind(row["kind"]),
            arguments=row["arguments_raw"],
            arguments_sha256=row["arguments_sha256"],
            allowed=tuple(DecisionKind(d) for d in row["allowed_decisions"]),
            rule=row["rule"].encode(),
            parameters=row["parameters"].encode(),
            input=row["input"],
            subagent_call_id=row["subagent_call_id"],
        ),
        state=State(row["state"]),
        ruling=_ruling(row) if row["decision"] is not None else None,
        decided_by=text_or_none(row["decided_by"]),
        decided_at=row["decided_at"],
        execution=Execution(row["execution_state"]),
        execution_at=row["execution_at"],
    )


def _ruling(row: Row) -> Ruling:
    return Ruling(
        decision=DecisionKind(row["decision"]),
        args=row["decision_args_raw"],
        args_sha256=row["decision_args_sha256"],
        message=row["decision_message"],
        value=row["decision_value"],
    )


def record(row: Row) -> Record:
    """One row of the audit trail."""
    return Record(
        tenant_id=str(row["tenant_id"]),
        seq=row["seq"],
        id=str(row["id"]),
        at=row["at"],
        actor_kind=row["actor_kind"],
        actor_id=text_or_none(row["actor_id"]),
        action=row["action"],
        target_kind=row["target_kind"],
        target_id=row["target_id"],
        run_id=row["run_id"],
        outcome=row["outcome"],
        detail=row["detail"],
        trace_id=row["trace_id"],
        prev_hash=row["prev_hash"],
        hash=row["hash"],
    )


def tenant(row: Row) -> Tenant:
    """A tenant."""
    return Tenant(str(row["id"]), row["name"], row["require_second_party"], row["created_at"])


def user(row: Row) -> User:
    """A user."""
    role = Role.named(row["role"])
    return User(str(row["id"]), row["name"], role, row["disabled"], row["created_at"])


def api_key(row: Row) -> ApiKey:
    """A key."""
    return ApiKey(
        id=str(row["id"]),
        user_id=str(row["user_id"]),
        name=row["name"],
        prefix=row["prefix"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        read_only=row["read_only"],
    )
