"""Rows to what the API shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_runner.domain.agent import AgentVersion
from hango_runner.domain.run import RunState, RunView
from hango_runner.postgres.rows import text_or_none

if TYPE_CHECKING:
    from hango_platform.postgres.transaction import Row


def run_view(row: Row) -> RunView:
    """A run. One that waits, but whose suspension is not open yet, still reads as running (T2b)."""
    state = RunState(row["state"])
    if state is RunState.AWAITING_APPROVAL and row["suspension_opened_at"] is None:
        state = RunState.RUNNING
    awaiting = state is RunState.AWAITING_APPROVAL
    return RunView(
        id=str(row["id"]),
        agent=row["agent"],
        agent_version=row["agent_version"],
        thread_id=row["thread_id"],
        state=state,
        awaiting_since=row["awaiting_since"] if awaiting else None,
        suspension_id=text_or_none(row["suspension_id"]),
        created_by=str(row["created_by"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        output=row["output"],
        failure_reason=row["failure_reason"],
        failure_message=row["failure_message"],
        forked_from=text_or_none(row["forked_from"]),
        pending_approvals=row["pending_approvals"] if awaiting else 0,
        model_calls=row["model_calls"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        metadata=row["metadata"],
        lane=row["lane"],
        gen=row["gen"],
    )


def agent_version(row: Row) -> AgentVersion:
    """An agent's version."""
    return AgentVersion(
        tenant_id=str(row["tenant_id"]),
        name=row["name"],
        version=row["version"],
        spec=row["spec"],
        spec_sha256=row["spec_sha256"],
        interrupt_on=row["interrupt_on"],
        warnings=tuple(row["warnings"]),
        created_at=row["created_at"],
        deleted=row["deleted_at"] is not None,
    )
