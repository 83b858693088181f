"""Both services' stores and use cases on real databases, and the steps of the model as methods.

There is no gRPC, no NATS and no clock: each method is one transaction of one service, or a message
that was read earlier and arrives now. Whoever drives a World decides the order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import asyncpg
from hango.approvals.v1 import approvals_pb2 as pb
from hango_approvals.domain.attempt import Attempt
from hango_approvals.domain.deciding import Decision
from hango_approvals.domain.suspension import DecisionKind
from hango_approvals.postgres.store import Store
from hango_approvals.runs_client import Run as KnownRun
from hango_approvals.servicer.suspensions import SuspensionsServicer
from hango_approvals.use_cases.decide import Decide
from hango_approvals.use_cases.expire import ExpireSuspensions
from hango_approvals.use_cases.open import OpenSuspension
from hango_approvals.use_cases.provision import NewUser, ProvisionTenant
from hango_approvals.use_cases.report import RecordAudit, ReportExecutions
from hango_approvals.use_cases.verdicts import GetVerdicts
from hango_approvals.use_cases.withdraw import ReconcileSuspensions, WithdrawSuspension
from hango_platform import ids
from hango_platform.errors import ApprovalsClosed, NotFound, RunFinished
from hango_platform.outbox.outbox import OutboxRow
from hango_platform.postgres.pool import Database
from hango_platform.rpc.caller import Principal, Role
from hango_platform.telemetry.metrics import Metrics
from hango_runner import mapping
from hango_runner.domain.agent import AgentVersion
from hango_runner.domain.run import NewRun, RunView
from hango_runner.domain.verdict import Withdrawal
from hango_runner.postgres.agents import SqlAgents
from hango_runner.postgres.journal import SqlJournal
from hango_runner.postgres.outbox import Outbox
from hango_runner.postgres.queue import SqlQueue
from hango_runner.postgres.runs import SqlRuns
from hango_runner.postgres.suspensions import SqlSuspensions
from hango_runner.use_cases.suspensions import Suspensions

from tests.integration.model.worker import TURNS, Hand

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hango_approvals.runs_client import RunsClient
    from hango_platform.outbox.relay import Relay
    from hango_runner.agent.state import CallKey
    from hango_runner.domain.verdict import Verdict, VerdictState

LEASE = timedelta(hours=1)
SPEC = '{"name":"bot","model":{"provider":"scripted","turns":[]}}'
# Not by TRUNCATE, which takes longer than an episode's few rows need.
EMPTY_A = "DELETE FROM pending_approvals; DELETE FROM suspensions; DELETE FROM outbox"
EMPTY_R = """DELETE FROM run_events; DELETE FROM messages; DELETE FROM tool_calls;
             DELETE FROM checkpoints; DELETE FROM outbox; DELETE FROM runs"""


@dataclass(frozen=True)
class Told:
    """What A said of a suspension, on its way to R; from S1 or from a pull."""

    run_id: str
    verdict: Verdict
    opened: bool


@dataclass
class Cancelling:
    """A cancel between its Withdraw and T5."""

    run_id: str
    suspension_id: str | None
    withdrawal: Withdrawal


@dataclass
class History:
    """What happened outside of the databases, and what was promised to somebody."""

    effects: Counter[tuple[str, CallKey]] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    told_cancelled: set[str] = field(default_factory=set)
    """Runs whose cancel was answered so that nobody may decide on them any more."""


class World:
    """Everything that takes part, with one tenant."""

    def __init__(self, approvals_dsn: str, runner_dsn: str) -> None:
        self._a = Database(approvals_dsn, max_size=3)
        self._r = Database(runner_dsn, max_size=3)
        self._dsns = approvals_dsn, runner_dsn
        self.tenant_id = ""

    async def open(self) -> None:
        """Connect, and make the tenant with its agent."""
        await self._a.open()
        await self._r.open()
        self.a_admin = await asyncpg.connect(self._dsns[0])
        self.r_admin = await asyncpg.connect(self._dsns[1])
        self.store = Store(self._a, cast("Relay", _Offers()))
        runs = cast("RunsClient", _Runs(self))
        metrics = Metrics()
        users = [NewUser("member", Role.MEMBER, ""), NewUser("admin", Role.ADMIN, "")]
        tenant, made = await ProvisionTenant(self.store)(f"t-{ids.new_id()}", users)
        self.tenant_id = tenant.id
        self.member, self.admin = (
            Principal(tenant.id, tenant.name, u.id, u.role, u.name) for u in made
        )
        self._decide = Decide(self.store, runs, metrics)
        self._expire = ExpireSuspensions(self.store, metrics)
        self._sweep = ReconcileSuspensions(self.store, runs, metrics)
        self.approvals = Direct(self.store)
        outbox = Outbox(mapping.finished_body)
        self.journal = SqlJournal(self._r, outbox, _wake, mapping.open_request)
        self.queue = SqlQueue(self._r, outbox, _wake, "worker")
        self.suspensions = SqlSuspensions(self._r, outbox, _wake, mapping.open_request)
        self.runs = SqlRuns(self._r, outbox, _wake, _withdraw_payload)
        agent = AgentVersion(tenant.id, "bot", 1, SPEC, "0" * 64, "{}", ())
        await SqlAgents(self._r, outbox).save(agent, self.member, [])
        self.begin()

    async def close(self) -> None:
        """Let go of the databases."""
        await asyncio.gather(self.a_admin.close(), self.r_admin.close())
        await asyncio.gather(self._a.close(), self._r.close())

    async def clear(self) -> None:
        """Forget all runs: the next episode starts from nothing."""
        await asyncio.gather(self.a_admin.execute(EMPTY_A), self.r_admin.execute(EMPTY_R))
        self.begin()

    def begin(self) -> None:
        """A new history."""
        self.history = History()
        self.hands: list[Hand] = []
        self.told: list[Told] = []
        self.cancels: list[Cancelling] = []

    # R's API

    async def start(self) -> str:
        """T0."""
        run = NewRun(ids.new_id(), "bot", '"go"', "{}", None)
        await self.runs.start(run, self.member, None, _nothing)
        return run.id

    async def begin_cancel(
        self, run_id: str, *, arrives: bool = True, answered: bool = True
    ) -> None:
        """T5's first half: read the run, tell A."""
        run = await self._view(run_id)
        if run.state.over:
            return
        told = None
        if run.suspension_id is not None and arrives:
            state = await self.approvals.withdraw(
                self.tenant_id, run_id, run.suspension_id, run.gen, self.member.user_id
            )
            told = state if answered else None
        withdrawal = Withdrawal(run.suspension_id, told)
        self.cancels.append(Cancelling(run_id, run.suspension_id, withdrawal))

    async def end_cancel(self, cancel: Cancelling) -> bool:
        """T5; False where the run has another suspension meanwhile, or is over."""
        try:
            done = await self.runs.cancel(
                cancel.run_id, self.member, cancel.withdrawal, None, _nothing
            )
        except RunFinished:
            return False
        if done is not None and not cancel.withdrawal.silent:
            self.history.told_cancelled.add(cancel.run_id)
        return done is not None

    # R's workers

    async def claim(self, limit: int = 1) -> list[Hand]:
        """T1."""
        claimed = await self.queue.claim("default", limit, LEASE)
        hands = [Hand(self, run) for run in claimed]
        self.hands += hands
        return hands

    async def release(self, hand: Hand) -> None:
        """T10. The tool that is under way goes on."""
        await self.queue.release(hand.run)
        if hand.doing is None:
            self.drop(hand)

    def drop(self, hand: Hand) -> None:
        """The worker dies, or has lost the run."""
        if hand in self.hands:
            self.hands.remove(hand)

    async def end_lease(self, run_id: str) -> None:
        """Time passes: this lease is over."""
        await self.r_admin.execute(
            "UPDATE runs SET lease_until = clock_timestamp() - interval '1 second'"
            " WHERE id = $1 AND lease_until IS NOT NULL",
            run_id,
        )

    # A

    async def decide(self, run_id: str, kinds: Sequence[DecisionKind], *, leave: int = 0) -> bool:
        """S2 with these kinds in turn, `leave` calls left out; False where it was refused."""
        waiting = await self.a_admin.fetch(
            "SELECT a.id, a.suspension_id, a.arguments_raw FROM pending_approvals a"
            " JOIN suspensions s ON s.id = a.suspension_id"
            " WHERE s.run_id = $1 ORDER BY s.gen DESC, a.position",
            run_id,
        )
        if not waiting:
            return False
        latest = [w for w in waiting if w["suspension_id"] == waiting[0]["suspension_id"]]
        decisions = tuple(
            _decision(str(w["id"]), kinds[i % len(kinds)], w["arguments_raw"])
            for i, w in enumerate(latest[leave:])
        )
        try:
            answer = await self._decide(Attempt(run_id, decisions), by=self.admin)
        except (ApprovalsClosed, NotFound):
            return False
        assert run_id not in self.history.told_cancelled, "decided after a cancel was answered"
        self.history.decided[answer.suspension.id] += 1
        return True

    async def pass_deadline(self, run_id: str) -> None:
        """Time passes: the run's suspension that is pending is late."""
        await self.a_admin.execute(
            "UPDATE suspensions SET expires_at = clock_timestamp() - interval '1 second'"
            " WHERE run_id = $1 AND state = 'pending'",
            run_id,
        )

    async def expire(self) -> int:
        """S3."""
        return await self._expire(10)

    async def sweep(self) -> int:
        """S4 for what a lost message has left pending for more than a minute."""
        await self.a_admin.execute(
            "UPDATE suspensions SET created_at = created_at - interval '1 hour'"
        )
        return await self._sweep(10)

    # Messages

    async def rows(self, kind: str) -> list[Any]:
        """What R's outbox was ever given of this kind, oldest first: all of it may come again."""
        return await self.r_admin.fetch(
            "SELECT key, payload FROM outbox WHERE kind = $1 ORDER BY created_at, id", kind
        )

    async def suspension(self, suspension_id: str) -> tuple[str, str] | None:
        """Run and id of a suspension, if A has it."""
        run_id = await self.a_admin.fetchval(
            "SELECT run_id FROM suspensions WHERE id = $1", suspension_id
        )
        return None if run_id is None else (str(run_id), suspension_id)

    async def send_open(self, request: bytes) -> Told:
        """S1, by whoever has this request; its answer is on its way."""
        _, run_id = mapping.opened_run(request)
        return self._tell(Told(run_id, await self.approvals.open(request), opened=True))

    async def pull(self, run_id: str, suspension_id: str) -> Told | None:
        """A hint about this suspension, of any generation, has made somebody ask A for it."""
        found = await self.approvals.verdicts([suspension_id])
        return self._tell(Told(run_id, found[0], opened=False)) if found else None

    def _tell(self, told: Told) -> Told:
        self.told.append(told)
        return told

    async def arrive(self, told: Told) -> None:
        """R does what it does with such an answer; it may come late, and twice."""
        use_case = Suspensions(self.suspensions, Answered(self.store, told.verdict))
        if told.opened:
            await use_case.open(self.tenant_id, told.run_id, b"")
        else:
            await use_case.settle([(self.tenant_id, told.run_id, told.verdict.suspension_id)])

    async def send_withdraws(self) -> None:
        """S4, from R's outbox."""
        for row in await self.rows("withdraw"):
            await self.approvals.take_withdraw(row["payload"])

    async def send_reports(self, *, backwards: bool = False) -> None:
        """S6, from R's outbox; in any order, and again."""
        rows = await self.r_admin.fetch(
            "SELECT id, tenant_id, kind, key, payload, traceparent FROM outbox"
            " WHERE kind = 'report' ORDER BY created_at, id"
        )
        if rows:
            await self.approvals.report(reversed(rows) if backwards else rows)

    async def reconcile(self) -> None:
        """R asks A about all that waits."""
        await Suspensions(self.suspensions, self.approvals).reconcile(100)

    async def _view(self, run_id: str) -> RunView:
        run = await self.runs.get(run_id, self.admin)
        assert run is not None
        return run

    # Coming to rest

    async def settle(self) -> None:
        """Everybody does what is left to do, until nothing can move any more."""
        for hand in list(self.hands):
            await hand.run_on()
        # People first: what may not be decided any more must not be left for a message to close.
        await self._decide_all()
        for _ in range(4 * TURNS):
            for row in await self.rows("open"):
                await self.arrive(await self.send_open(row["payload"]))
            await self.send_withdraws()
            await self.reconcile()
            for run in await self.r_admin.fetch("SELECT id FROM runs WHERE state = 'running'"):
                await self.end_lease(str(run["id"]))
            await self.queue.reap(10)
            for hand in await self.claim(10):
                await hand.run_on()
            await self._decide_all()
            if not await self.r_admin.fetchval(f"SELECT count(*) FROM runs WHERE state IN {LIVE}"):
                break
        for run in await self.r_admin.fetch("SELECT id FROM runs"):
            await self.end_lease(str(run["id"]))
        await self.queue.close_left(100)
        await self.sweep()
        await self.send_reports()

    async def _decide_all(self) -> None:
        for run in await self.r_admin.fetch("SELECT id FROM runs"):
            await self.decide(str(run["id"]), [DecisionKind.APPROVE])


LIVE = "('queued', 'running', 'awaiting_approval')"


class Direct:
    """A as R calls it (hango_runner.ports.Approvals), with the messages of the wire but without
    the wire.
    """

    def __init__(self, store: Store) -> None:
        self._servicer = SuspensionsServicer(
            OpenSuspension(store, timedelta(hours=1)),
            GetVerdicts(store),
            WithdrawSuspension(store),
            ReportExecutions(store),
            RecordAudit(store),
        )

    async def open(self, request: bytes) -> Verdict:
        """S1."""
        parsed = pb.OpenSuspensionRequest.FromString(request)
        answer = await self._servicer.OpenSuspension(parsed, None)
        return mapping.opened(parsed.suspension_id, answer)

    async def verdicts(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """How these suspensions stand."""
        request = pb.GetVerdictsRequest(suspension_ids=suspension_ids)
        answer = await self._servicer.GetVerdicts(request, None)
        return [mapping.verdict(v) for v in answer.verdicts]

    async def withdraw(
        self, tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
    ) -> VerdictState:
        """S4."""
        request = mapping.withdraw_request(tenant_id, run_id, suspension_id, gen, actor_id)
        answer = await self._servicer.WithdrawSuspension(request, None)
        return mapping.VERDICT_STATES[answer.state]

    async def has_approver(self, _tenant_id: str, _except_user_id: str) -> bool:
        """There is the admin."""
        return True

    async def take_withdraw(self, payload: bytes) -> None:
        """S4, as it lies in the outbox."""
        await self._servicer.WithdrawSuspension(
            pb.WithdrawSuspensionRequest.FromString(payload), None
        )

    async def report(self, rows: Iterable[Any]) -> None:
        """S6, as it lies in the outbox."""
        sent = [
            OutboxRow(
                str(r["tenant_id"]),
                r["kind"],
                r["key"],
                r["payload"],
                str(r["id"]),
                r["traceparent"],
            )
            for r in rows
        ]
        request = pb.ReportExecutionsRequest(reports=map(mapping.report, sent))
        await self._servicer.ReportExecutions(request, None)


class Answered(Direct):
    """A whose answer was read before and arrives now; what is asked anew is answered as of now."""

    def __init__(self, store: Store, verdict: Verdict) -> None:
        super().__init__(store)
        self._verdict: Verdict | None = verdict

    async def open(self, _request: bytes) -> Verdict:
        """The answer to S1 that was under way."""
        verdict, self._verdict = self._verdict, None
        assert verdict is not None
        return verdict

    async def verdicts(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """The answer that was under way, once; then the truth."""
        verdict, self._verdict = self._verdict, None
        return [verdict] if verdict else await super().verdicts(suspension_ids)


class _Runs:
    """R as A asks it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def states(self, run_ids: Sequence[str]) -> dict[str, KnownRun]:
        rows = await self._world.r_admin.fetch(
            "SELECT id, tenant_id, created_by, state FROM runs WHERE id = ANY ($1::uuid[])", run_ids
        )
        return {
            str(r["id"]): KnownRun(
                str(r["id"]), str(r["tenant_id"]), str(r["created_by"]), r["state"]
            )
            for r in rows
        }

    async def find(self, run_id: str) -> KnownRun | None:
        return (await self.states([run_id])).get(run_id)


class _Offers:
    """A relay that sends nothing by itself."""

    def offer(self, _rows: object) -> None: ...


def _decision(approval_id: str, kind: DecisionKind, arguments: bytes) -> Decision:
    said = "no" if kind in (DecisionKind.REJECT, DecisionKind.RESPOND) else None
    args = arguments.replace(b"1", b"2") if kind is DecisionKind.EDIT else None
    return Decision(approval_id=approval_id, kind=kind, args=args, message=said)


def _withdraw_payload(
    tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
) -> bytes:
    request = mapping.withdraw_request(tenant_id, run_id, suspension_id, gen, actor_id)
    return request.SerializeToString()


def _wake(_run_id: str, _at_rest: bool) -> None: ...


def _nothing(_run: RunView) -> bytes:
    return b""
