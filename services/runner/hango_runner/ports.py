"""What the use cases need from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hango_platform.rpc.caller import Principal

    from hango_runner.agent.state import Call
    from hango_runner.domain.agent import AgentVersion
    from hango_runner.domain.fork import Checkpoint, Difference, Forked, NewFork
    from hango_runner.domain.run import Idempotency, NewRun, RunState, RunView
    from hango_runner.domain.verdict import Verdict, VerdictState, Withdrawal


class Approvals(Protocol):
    """The approvals service. Every method raises Unavailable where it cannot be reached."""

    async def open(self, request: bytes) -> Verdict:
        """S1, with the request as it lies in the outbox; the suspension as it stands then."""

    async def verdicts(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """How these suspensions stand; unknown ones are left out."""

    async def withdraw(
        self, tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
    ) -> VerdictState:
        """S4, within 2 seconds; how the suspension stands then."""

    async def has_approver(self, tenant_id: str, except_user_id: str) -> bool:
        """Whether anybody but this user could decide in the tenant."""


class SuspensionStore(Protocol):
    """R's side of a suspension. Each method is one transaction; False: the race was lost."""

    async def opened(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T2b."""

    async def resume(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T3."""

    async def end(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        """T4 for an expired suspension, T4w for a withdrawn one."""

    async def awaiting(
        self, limit: int, after: str | None
    ) -> list[tuple[str, str, str, datetime | None]]:
        """Paused runs by id: tenant, run, suspension, since when it is open."""

    async def open_request(self, tenant_id: str, run_id: str, suspension_id: str) -> bytes | None:
        """The request that opens this suspension, made anew from the rows."""


class RunStore(Protocol):
    """Runs as people see them."""

    async def start(
        self,
        run: NewRun,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes:
        """T0. The first answer, if this is a repeat.

        Raises NotFound, InvalidRequest, ThreadBusy, IdempotencyMismatch, IdempotencyInFlight.
        """

    async def get(self, run_id: str, by: Principal) -> RunView | None:
        """A run that this user may see."""

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

    async def cancel(
        self,
        run_id: str,
        by: Principal,
        withdrawal: Withdrawal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes | None:
        """T5, after A was told.

        None where the run has another suspension meanwhile. Raises NotFound, RunFinished.
        """

    async def earlier(self, by: Principal, repeat: Idempotency) -> bytes | None:
        """The answer to the first request with this key. Raises IdempotencyMismatch."""


class ForkStore(Protocol):
    """Checkpoints and forks. Every method raises NotFound where the caller may not see the run."""

    async def get(
        self, run_id: str, checkpoint_id: str, by: Principal
    ) -> tuple[Checkpoint, list[Call], bytes | None]:
        """A checkpoint, the calls that are open there, and the arguments of the last
        `write_todos` before.
        """

    async def fork(
        self,
        fork: NewFork,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[Forked], bytes],
    ) -> Forked | bytes:
        """T0 of a fork. The first answer, if this is a repeat.

        Raises InvalidRequest, IdempotencyMismatch, IdempotencyInFlight.
        """

    async def diff(self, run_id: str, other_id: str, by: Principal) -> Difference:
        """Where two runs part. Raises Conflict where they have no common origin."""


class AgentStore(Protocol):
    """Agents and their versions."""

    async def newest(self, tenant_id: str, name: str) -> AgentVersion | None:
        """The newest version of an agent in use."""

    async def version(self, tenant_id: str, name: str, version: int) -> AgentVersion | None:
        """One version, in use or not."""

    async def save(
        self, agent: AgentVersion, by: Principal, audit: Sequence[dict[str, Any]]
    ) -> AgentVersion | None:
        """Store a new version; None where somebody else has saved that number meanwhile."""

    async def list_page(
        self, tenant_id: str, after: tuple[datetime, str] | None, limit: int
    ) -> list[AgentVersion]:
        """The newest version of each agent in use, newest first."""

    async def delete(self, tenant_id: str, name: str, audit: Sequence[dict[str, Any]]) -> bool:
        """Take an agent out of use; whether it was in use."""
