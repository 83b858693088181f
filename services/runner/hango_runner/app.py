"""The composition root: the runner's parts list."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from hango.runs.v1 import history_pb2, history_pb2_grpc, runs_pb2, runs_pb2_grpc
from hango_platform import ids
from hango_platform.bus import subjects
from hango_platform.bus.jetstream import Bus
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable
from hango_platform.outbox import publish
from hango_platform.outbox.outbox import measure
from hango_platform.outbox.relay import Refused, Relay, Unreachable
from hango_platform.postgres.listen import listen
from hango_platform.postgres.pool import Database
from hango_platform.postgres.sealing import Sealing
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.credentials import CachedCredentials
from hango_platform.rpc.server import Server
from hango_platform.rpc.tls import Tls
from hango_platform.rpc.tokens import Tokens
from hango_platform.telemetry.metrics import Metrics

from hango_runner import mapping
from hango_runner.agent.executor import Executor
from hango_runner.agent.loop import Loop
from hango_runner.agent.middleware.allowlist import Allowlist
from hango_runner.agent.middleware.deltas import Deltas
from hango_runner.agent.middleware.human_in_the_loop import HumanInTheLoop
from hango_runner.agent.middleware.memory import Memory
from hango_runner.agent.middleware.repair import RepairToolCalls
from hango_runner.agent.middleware.timeout import Timeout
from hango_runner.agent.model import model_for
from hango_runner.approvals_client import ApprovalsClient
from hango_runner.consumers import ResumeHints
from hango_runner.domain.story import model_delta
from hango_runner.models import endpoints
from hango_runner.models.asking import Models
from hango_runner.postgres import outbox as kinds
from hango_runner.postgres.agents import SqlAgents
from hango_runner.postgres.forks import SqlForks
from hango_runner.postgres.journal import SqlJournal
from hango_runner.postgres.outbox import Outbox
from hango_runner.postgres.queue import SqlQueue
from hango_runner.postgres.runs import SqlRuns
from hango_runner.postgres.stories import SqlStories
from hango_runner.postgres.suspensions import SqlSuspensions
from hango_runner.postgres.threads import SqlThreads
from hango_runner.servicer.agents import AgentsServicer
from hango_runner.servicer.checkpoints import CheckpointsServicer
from hango_runner.servicer.maintenance import RunsMaintenanceServicer
from hango_runner.servicer.runs import RunsServicer, RunStatesServicer
from hango_runner.servicer.threads import ThreadsServicer
from hango_runner.settings import secret
from hango_runner.tools import server_file
from hango_runner.tools.catalog import Catalog
from hango_runner.use_cases.agents import Agents
from hango_runner.use_cases.forks import Forks
from hango_runner.use_cases.runs import Runs
from hango_runner.use_cases.suspensions import Suspensions
from hango_runner.wakes import Wakes
from hango_runner.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack

    from hango_platform.lifecycle import Tasks
    from hango_platform.outbox.outbox import OutboxRow

    from hango_runner.agent.chain import Middleware
    from hango_runner.settings import RunnerSettings

log = logging.getLogger(__name__)

_PULSE = 1.0
_GAUGES_EVERY = 5.0


def chain(catalog: Catalog) -> list[Middleware]:
    """The onion, outermost first; a test pins the order."""
    return [
        # Before all that reads the conversation: what it sees must be whole.
        RepairToolCalls(),
        # What the agent noted down is part of what it is asked.
        Memory(),
        # Outside of what may refuse or bound a call: a person's time is no tool's time, and a
        # call that waits must not count as tried.
        HumanInTheLoop(catalog),
        # Behind the person: an approval does not widen what the agent may use.
        Allowlist(catalog),
        # Next to the tool: only the tool's own time counts.
        Timeout(),
    ]


async def start(settings: RunnerSettings, stack: AsyncExitStack, tasks: Tasks) -> Mapping[str, Any]:
    """Build and start the runner; the addresses it is bound to."""
    metrics = Metrics()
    database = Database(
        settings.runner_dsn.get_secret_value(),
        max_size=settings.runner_pool,
        pooled=settings.postgres_pooler,
        sealing=Sealing.of(settings.encryption_key),
    )
    await database.open()
    stack.push_async_callback(database.close)
    stack.push_async_callback(tasks.stop)
    internal = Tokens(settings.internal_key.get_secret_value(), "runner")
    tls = Tls.of(settings)
    channel = Channel(settings.approvals_addr, internal, tls)
    stack.push_async_callback(channel.close)
    approvals = ApprovalsClient(channel)
    bus = Bus(settings.nats_url.get_secret_value(), "hango-runner")

    wakes = Wakes()

    def wake(run_id: str, at_rest: bool) -> None:
        wakes.notify(run_id, at_rest=at_rest)
        bus.hint(subjects.run_wake(run_id), b"rest" if at_rest else b"")

    servers = () if settings.tool_servers is None else server_file.load(settings.tool_servers)
    catalog = Catalog(servers)
    catalog.start(tasks)
    stack.push_async_callback(catalog.stop)
    outbox = Outbox(mapping.finished_body)
    stories = SqlStories(database)
    journal = SqlJournal(database, outbox, wake, mapping.open_request)
    suspensions = Suspensions(
        SqlSuspensions(database, outbox, wake, mapping.open_request), approvals
    )
    outbox.to_approvals = Relay(
        database,
        {kinds.OPEN: _opener(suspensions), kinds.WITHDRAW: approvals.send_withdraw},
        {kinds.REPORT: approvals.send_reports, kinds.AUDIT: approvals.send_audit},
    )
    outbox.to_bus = Relay(database, {publish.KIND: publish.Publisher(bus, "runner")})
    queue = SqlQueue(database, outbox, wake, owner=f"runner-{ids.new_id()}")
    models = Models(endpoints.load(settings.model_endpoints), secret, model_for)
    stack.push_async_callback(models.close)

    def tell(run_id: str, turn: int, attempt: int, text: str) -> None:
        bus.hint(subjects.run_delta(run_id), model_delta(run_id, turn, attempt, text))

    loop = Loop(
        journal,
        catalog,
        # The last layer only looks on.
        [*chain(catalog), Deltas(tell)],
        Executor(journal, catalog),
        models,
    )
    worker = Worker(
        queue,
        journal,
        loop,
        suspensions,
        mapping.open_request,
        lanes=settings.lanes,
        lease=settings.lease_ttl,
        metrics=metrics,
    )
    runs = Runs(SqlRuns(database, outbox, wake, _withdraw_payload), approvals, wakes)
    checkpoints = SqlForks(database, wake)
    agents = Agents(SqlAgents(database, outbox), catalog, settings.lanes)
    server = Server(
        [
            (
                _service("AgentsService"),
                lambda s: runs_pb2_grpc.add_AgentsServiceServicer_to_server(
                    AgentsServicer(agents), s
                ),
            ),
            (
                _service("RunsService"),
                lambda s: runs_pb2_grpc.add_RunsServiceServicer_to_server(
                    RunsServicer(runs, stories, wakes), s
                ),
            ),
            (
                _service("ThreadsService"),
                lambda s: history_pb2_grpc.add_ThreadsServiceServicer_to_server(
                    ThreadsServicer(SqlThreads(database)), s
                ),
            ),
            (
                _service("CheckpointsService"),
                lambda s: history_pb2_grpc.add_CheckpointsServiceServicer_to_server(
                    CheckpointsServicer(Forks(checkpoints, runs, catalog), checkpoints, stories), s
                ),
            ),
            (
                _service("RunStatesService"),
                lambda s: runs_pb2_grpc.add_RunStatesServiceServicer_to_server(
                    RunStatesServicer(stories), s
                ),
            ),
            (
                _service("RunsMaintenanceService"),
                lambda s: runs_pb2_grpc.add_RunsMaintenanceServiceServicer_to_server(
                    RunsMaintenanceServicer(queue, suspensions, metrics), s
                ),
            ),
        ],
        authenticate=CachedCredentials(approvals.authenticate),
        internal=internal,
        metrics=metrics,
    )
    addr = await server.start(settings.runner_addr, tls)
    drain = settings.drain.total_seconds()
    stack.push_async_callback(server.stop, min(drain, 2.0))
    stack.push_async_callback(worker.leave, max(drain - 2.0, 0.5))

    hints = ResumeHints(suspensions)
    await bus.subscribe(subjects.every_tenant("run.resume"), hints.hear, queue="runner")
    await bus.subscribe(
        subjects.run_wake("*"),
        lambda subject, said: wakes.notify(subject.rpartition(".")[2], at_rest=said == b"rest"),
    )
    bus.on_connect(lambda: tasks.spawn(hints.catch_up(), "catch up"))
    tasks.spawn(bus.run(), "bus")
    tasks.spawn(hints.run(), "resume hints")
    tasks.spawn(outbox.to_approvals.run(), "relay to approvals")
    tasks.spawn(outbox.to_bus.run(), "relay to bus")
    tasks.spawn(worker.renew(), "leases")
    for lane in settings.lanes:
        tasks.spawn(_work(worker, catalog, lane), f"lane {lane}")
    if not settings.postgres_pooler:
        heard = listen(settings.runner_dsn.get_secret_value(), "hango_runs", worker.wake)
        tasks.spawn(heard, "listen")
    tasks.spawn(_pulse(server, database), "pulse")
    tasks.spawn(_gauges(queue, database, metrics), "gauges")
    return {"grpc": addr, "metrics": metrics.serve(settings.metrics_addr)}


async def _work(worker: Worker, catalog: Catalog, lane: str) -> None:
    # An approved call must not find its tool missing only because the server is still starting.
    await catalog.settled()
    await worker.run_lane(lane)


def _service(name: str) -> Any:
    files = (runs_pb2.DESCRIPTOR, history_pb2.DESCRIPTOR)
    return next(f.services_by_name[name] for f in files if name in f.services_by_name)


def _opener(suspensions: Suspensions) -> Any:
    async def send(row: OutboxRow) -> None:
        tenant_id, run_id = mapping.opened_run(row.payload)
        try:
            await suspensions.open(tenant_id, run_id, row.payload)
        except (Unavailable, OutcomeUnknown) as error:
            raise Unreachable(str(error)) from error
        except HangoError as error:
            raise Refused(row, error.reason) from error

    return send


def _withdraw_payload(
    tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
) -> bytes:
    return mapping.withdraw_request(
        tenant_id, run_id, suspension_id, gen, actor_id
    ).SerializeToString()


async def _pulse(server: Server, database: Database) -> None:
    """Readiness depends on the own database alone."""
    while True:
        try:
            await database.ping()
            await server.report(ready=True)
        except Unavailable:
            await server.report(ready=False)
        await asyncio.sleep(_PULSE)


async def _gauges(queue: SqlQueue, database: Database, metrics: Metrics) -> None:
    while True:
        try:
            await measure(database, metrics)
            counts = await queue.by_state()
        except Unavailable:
            counts = {}
        for state in ("queued", "running", "awaiting_approval"):
            metrics.runs_by_state.labels(state).set(counts.get(state, 0))
        await asyncio.sleep(_GAUGES_EVERY)
