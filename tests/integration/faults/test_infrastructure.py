"""PostgreSQL, NATS and the network fail, and clients do; nothing is lost, and nobody hangs."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango_cli.embedded import EmbeddedPostgres
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable

from tests.integration.faults import story
from tests.support.backend import PostgresServer
from tests.support.cluster import patiently, running_cluster
from tests.support.proxy import proxy_to
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from hango_cli.embedded import EmbeddedNats

    from tests.support.cluster import Cluster
    from tests.support.counting import Ledger
    from tests.support.zygote import Zygote

    Clusters = Callable[..., AbstractAsyncContextManager[Cluster]]

FIRE = "count__fire"
APPROVE = {"tool_call_id": "c1", "decision": "approve"}


@asynccontextmanager
async def held(cluster: Cluster) -> AsyncIterator[None]:
    """The rows of all suspensions, locked by somebody else."""
    connection = await asyncpg.connect(cluster.approvals_dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetch("SELECT FROM suspensions FOR UPDATE")
    try:
        yield
    finally:
        await transaction.rollback()
        await connection.close()


async def waiting(cluster: Cluster) -> int:
    """How many transactions of A wait for a lock. A connection of its own each time: within a
    transaction the view does not change.
    """
    rows = await cluster.sql(
        "approvals",
        "SELECT count(*) AS n FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    found: int = rows[0]["n"]
    return found


async def paused_run(cluster: Cluster, tool: str = FIRE) -> str:
    """A run that waits."""
    run_id = await story.started(cluster, story.spec(tool))
    assert await story.paused(cluster, run_id)
    return run_id


async def ran_once(cluster: Cluster, ledger: Ledger, run_id: str) -> None:
    """The run ended well, and its call ran once."""
    assert await story.ended(cluster, run_id) == "succeeded"
    await story.assert_decided_once(cluster, run_id)
    assert len([e for e in ledger.entries(story.ITEM) if e["run_id"] == run_id]) == 1


# NATS


async def test_nats_is_down(clusters: Clusters, ledger: Ledger, nats: EmbeddedNats) -> None:
    """Runs start, pause, are decided and end without it, and nobody is told of an error."""
    async with clusters() as cluster:
        before = await paused_run(cluster)
        nats.stop()
        admin = cluster.users["admin"]
        await admin.decide(before, APPROVE)
        await ran_once(cluster, ledger, before)
        after = await paused_run(cluster)
        await admin.decide(after, APPROVE)
        await ran_once(cluster, ledger, after)


async def test_nats_loses_what_it_acknowledged(
    clusters: Clusters, ledger: Ledger, nats: EmbeddedNats, tmp_path: Path
) -> None:
    """Case 34: the broker has taken every event, while no runner listened; then its data folder
    is deleted and it starts again empty. Every decided run still resumes.
    """
    async with clusters() as cluster:
        runs = [await paused_run(cluster) for _ in range(5)]
        cluster.forget("runner")
        await cluster.processes["runner"].kill()
        for run_id in runs:
            await story.approved(cluster, run_id)

        async def all_published() -> bool:
            rows = await cluster.sql(
                "approvals", "SELECT count(*) AS n FROM outbox WHERE published_at IS NULL"
            )
            return bool(rows[0]["n"] == 0)

        await eventually(all_published, what="the broker has acknowledged all")
        store = nats.log.parent / "jetstream"
        assert store.is_dir()
        nats.stop()
        shutil.rmtree(store)
        nats.start()
        await cluster.boot("runner")
        for run_id in runs:
            await ran_once(cluster, ledger, run_id)


async def test_nats_is_half_open(clusters: Clusters, ledger: Ledger, nats: EmbeddedNats) -> None:
    """The connections stay, and nothing passes any more."""
    async with proxy_to(nats.url) as proxy, clusters(nats_url=proxy.url(nats.url)) as cluster:
        run_id = await paused_run(cluster)
        proxy.half_open = True
        await cluster.users["admin"].decide(run_id, APPROVE)
        await ran_once(cluster, ledger, run_id)


# PostgreSQL


@asynccontextmanager
async def mortal_postgres() -> AsyncIterator[tuple[EmbeddedPostgres, PostgresServer]]:
    """A server of the test's own, durable, to be killed."""
    with tempfile.TemporaryDirectory(prefix="hango-test-") as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        server.start()
        try:
            yield server, PostgresServer(server.superuser_dsn())
        finally:
            server.stop()


async def test_postgres_is_restarted_immediately(
    zygote: Zygote, ledger: Ledger, nats: EmbeddedNats, tmp_path: Path
) -> None:
    """kill -9 of the postmaster while decides are on their way: what was acknowledged is there
    afterwards, and the services are back within 10 s of it.
    """
    async with mortal_postgres() as (server, postgres):
        made = running_cluster(
            postgres, nats.url, zygote, tmp_path, tool_servers=ledger.tool_servers
        )
        async with made as cluster:
            runs = [await paused_run(cluster) for _ in range(6)]
            admin = cluster.users["admin"]
            deciding = [
                asyncio.create_task(
                    patiently(
                        lambda r=run_id: admin.decide(  # type: ignore[misc]
                            r, APPROVE, idempotency_key=r, timeout=5
                        ),
                        timeout=30,
                    )
                )
                for run_id in runs
            ]
            await asyncio.wait(deciding, return_when=asyncio.FIRST_COMPLETED)
            signal.pidfd_send_signal(_pidfd(server.pid), signal.SIGKILL)
            await eventually(lambda: _is_down(server), what="the end of the postmaster")
            server.start()
            up = time.monotonic()
            await asyncio.gather(*deciding)
            for run_id in runs:
                await patiently(lambda r=run_id: admin.run(r))  # type: ignore[misc]
            assert time.monotonic() - up < 10
            for run_id in runs:
                await ran_once(cluster, ledger, run_id)


def _pidfd(pid: int) -> int:
    import os

    return os.pidfd_open(pid)


async def _is_down(server: EmbeddedPostgres) -> bool:
    return not server.alive()


@pytest.mark.parametrize("which", ["approvals", "runner"])
async def test_every_session_is_terminated(clusters: Clusters, ledger: Ledger, which: str) -> None:
    """`pg_terminate_backend` of all sessions, LISTEN's too, between the pause and the decision."""
    async with clusters() as cluster:
        run_id = await paused_run(cluster)
        for _ in range(3):
            await cluster.sql(
                which,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
        await story.approved(cluster, run_id)
        await ran_once(cluster, ledger, run_id)


async def test_the_listen_connection_dies_silently(clusters: Clusters, ledger: Ledger) -> None:
    """Case 35: a decision that commits in the gap is announced within a second."""
    async with clusters() as cluster:
        run_id = await paused_run(cluster)
        gone = await cluster.sql(
            "runner",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        )
        assert gone
        begun = time.monotonic()
        await cluster.users["admin"].decide(run_id, APPROVE)
        await cluster.users["member"].until(run_id, "approval.decided")
        assert time.monotonic() - begun < 1
        await ran_once(cluster, ledger, run_id)


async def test_the_answer_to_commit_is_lost(
    clusters: Clusters, ledger: Ledger, postgres_server: PostgresServer
) -> None:
    """During COMMIT: PostgreSQL takes it, and the connection dies before the answer. The decider
    is told that it is not known, and repeating with the same key tells him.
    """
    async with proxy_to(postgres_server.admin_dsn) as proxy, clusters() as cluster:
        run_id = await paused_run(cluster)
        cluster.forget("approvals")
        await cluster.processes["approvals"].stop()
        await cluster.boot("approvals", HANGO_APPROVALS_DSN=proxy.url(cluster.approvals_dsn))
        admin = cluster.users["admin"]
        await patiently(admin.approval_list)
        proxy.swallow = (b"UPDATE suspensions", b"COMMIT")
        deciding = asyncio.create_task(admin.decide(run_id, APPROVE, idempotency_key="k"))
        await proxy.swallowed.wait()

        async def committed() -> bool:
            rows = await cluster.sql(
                "approvals", "SELECT state FROM suspensions WHERE run_id = $1", run_id
            )
            return bool(rows[0]["state"] == "decided")

        await eventually(committed, what="the COMMIT that nobody heard of")
        proxy.reset()
        with pytest.raises(OutcomeUnknown):
            await deciding
        answer = await patiently(lambda: admin.decide(run_id, APPROVE, idempotency_key="k"))
        assert answer.run_id == run_id
        await ran_once(cluster, ledger, run_id)


async def test_commits_are_slow(
    clusters: Clusters, ledger: Ledger, postgres_server: PostgresServer
) -> None:
    """Every message to and from the database takes 10 ms more."""
    async with proxy_to(postgres_server.admin_dsn) as proxy:
        proxy.latency = 0.01
        async with clusters(services=()) as cluster:
            _by_way_of(proxy, cluster)
            await _boot_all(cluster)
            run_id = await paused_run(cluster)
            await story.approved(cluster, run_id)
            await ran_once(cluster, ledger, run_id)


async def test_postgres_is_half_open(
    clusters: Clusters, ledger: Ledger, postgres_server: PostgresServer
) -> None:
    """The connections stay, and nothing passes any more: 503 within 4 s, and all is well as soon
    as the network is.
    """
    async with proxy_to(postgres_server.admin_dsn) as proxy, clusters(services=()) as cluster:
        _by_way_of(proxy, cluster)
        await _boot_all(cluster)
        run_id = await paused_run(cluster)
        admin = cluster.users["admin"]
        proxy.half_open = True
        begun = time.monotonic()
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await admin.decide(run_id, APPROVE)
        assert time.monotonic() - begun < 4
        proxy.heal()
        begun = time.monotonic()
        await story.approved(cluster, run_id)
        assert time.monotonic() - begun < 5
        await ran_once(cluster, ledger, run_id)


def _by_way_of(proxy: Any, cluster: Cluster) -> None:
    cluster.own = {
        "approvals": {"HANGO_APPROVALS_DSN": proxy.url(cluster.approvals_dsn)},
        "runner": {"HANGO_RUNNER_DSN": proxy.url(cluster.runner_dsn)},
    }


async def _boot_all(cluster: Cluster) -> None:
    for name in ("approvals", "runner", "sweeper"):
        await cluster.boot(name)
        cluster.keep(name)
    await patiently(lambda: _provisioned(cluster))


async def _provisioned(cluster: Cluster) -> bool:
    await cluster.provision()
    return True


async def test_the_pool_is_exhausted(clusters: Clusters, ledger: Ledger) -> None:
    """Every connection of A waits for a lock: whoever comes now is told so within a second or
    so, and nothing hangs when it is over.
    """
    async with clusters() as cluster:
        run_id = await paused_run(cluster)
        admin = cluster.users["admin"]
        async with held(cluster):
            decides: list[asyncio.Task[Any]] = []

            async def full() -> bool:
                # A connection takes its time to be made, and whoever waits a second is refused.
                key = f"k{len(decides)}"
                decides.append(
                    asyncio.create_task(admin.decide(run_id, APPROVE, idempotency_key=key))
                )
                return await waiting(cluster) == 20

            await eventually(full, what="20 transactions that wait")
            begun = time.monotonic()
            with pytest.raises(Unavailable):
                await admin.approval_list()
            assert time.monotonic() - begun < 1.5
        ends = await asyncio.gather(*decides, return_exceptions=True)
        answered = [e for e in ends if isinstance(e, apb.DecideApprovalsResponse)]
        assert len(answered) <= 1
        assert all(isinstance(e, HangoError) for e in ends if e not in answered)
        await patiently(admin.approval_list)
        if not answered:
            await story.approved(cluster, run_id)
        await ran_once(cluster, ledger, run_id)


# Clients


async def test_200_clients_cancel_at_random(clusters: Clusters, ledger: Ledger) -> None:
    """Case 36: 200 clients give up while they wait, over and over; then the service answers at
    once, and no session of its is left in a transaction.
    """
    async with clusters() as cluster:
        run_id = await paused_run(cluster)
        admin = cluster.users["admin"]
        async with held(cluster):
            for _ in range(5):
                calls = [
                    asyncio.create_task(
                        admin.decide(run_id, APPROVE) if i % 2 else admin.approval_list()
                    )
                    for i in range(200)
                ]
                for i, call in enumerate(calls):
                    asyncio.get_running_loop().call_later(i / 1000, call.cancel)
                await asyncio.gather(*calls, return_exceptions=True)

            async def nobody_waits() -> bool:
                return await waiting(cluster) == 0

            await eventually(nobody_waits, what="the decides' ends")
        answers = await asyncio.gather(*(admin.approval_list() for _ in range(20)))
        assert len(answers) == 20

        async def none_left() -> bool:
            rows = await cluster.sql(
                "approvals",
                "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%'",
            )
            return bool(rows[0]["n"] == 0)

        await eventually(none_left, what="no session in a transaction")
        await story.approved(cluster, run_id)
        await ran_once(cluster, ledger, run_id)


async def test_sigterm_with_decides_in_flight(clusters: Clusters, ledger: Ledger) -> None:
    """Case 37, of A: decides wait for a lock when it is told to stop. They are answered, it ends
    within 10 s, and every committed decide was answered.
    """
    async with clusters(keep=False) as cluster:
        runs = [await paused_run(cluster) for _ in range(3)]
        admin = cluster.users["admin"]
        process = cluster.processes["approvals"]
        async with held(cluster):
            deciding = [asyncio.create_task(admin.decide(r, APPROVE)) for r in runs]

            async def all_wait() -> bool:
                return await waiting(cluster) == 3

            await eventually(all_wait, what="3 transactions that wait")
            process.send(signal.SIGTERM)

            async def stopping() -> bool:
                return bool(cluster.said(process, "stopping"))

            await eventually(stopping, what="A stops")
        answers = await asyncio.gather(*deciding)
        assert [a.run_id for a in answers] == runs
        async with asyncio.timeout(10):
            await process.ended()
        await cluster.boot("approvals")
        for run_id in runs:
            await ran_once(cluster, ledger, run_id)


async def test_sigterm_with_streams_and_a_running_tool(clusters: Clusters, ledger: Ledger) -> None:
    """Case 37, of R: 200 streams are open and a tool runs. It ends within 10 s, the run is let go
    of at once (T10) or its call is unknown, and the run ends after a restart.
    """
    async with clusters(keep=False) as cluster:
        gate = ledger.hold(story.ITEM)
        run_id = await paused_run(cluster)
        member = cluster.users["member"]

        async def watch() -> None:
            async for _ in member.watch(run_id):
                pass

        streams = [asyncio.create_task(watch()) for _ in range(200)]
        await story.approved(cluster, run_id)
        await gate.reached()
        process = cluster.processes["runner"]
        begun = time.monotonic()
        process.send(signal.SIGTERM)
        async with asyncio.timeout(10):
            await process.ended()
        assert time.monotonic() - begun < 10
        ends = await asyncio.gather(*streams, return_exceptions=True)
        assert all(isinstance(end, (Unavailable, OutcomeUnknown)) for end in ends)
        gate.remove()
        await cluster.boot("runner")
        assert await story.ended(cluster, run_id) == "succeeded"
        assert await story.executions(cluster, run_id) == {"unknown"}
        assert ledger.count(story.ITEM) == 1


async def test_the_gateway_dies_after_the_decision_was_taken(
    clusters: Clusters, ledger: Ledger
) -> None:
    """A has committed, the gateway dies before it answers: the same request again gets the answer
    that the first would have got.
    """
    services = ("approvals", "runner", "sweeper", "gateway")
    async with clusters(services=services, fault={"gateway": "after_write:kill9"}) as cluster:
        run_id = await paused_run(cluster)
        body = {"decisions": [APPROVE]}
        headers = {"authorization": f"Bearer {cluster.users['admin'].key}"}
        async with httpx.AsyncClient(
            base_url=f"http://{cluster.http_addr}", headers=headers
        ) as client:
            answers = []

            async def decide() -> httpx.Response | None:
                try:
                    answer = await client.post(
                        f"/v1/runs/{run_id}/approvals",
                        json=body,
                        headers={"idempotency-key": "k"},
                    )
                except httpx.TransportError as error:
                    answers.append(type(error))
                    await asyncio.sleep(0.05)
                    return None
                return answer

            answer = await eventually(decide, what="an answer")
        assert cluster.faults_reached("gateway") == 1
        assert answers
        assert answer.status_code == 200
        assert answer.json()["run_id"] == run_id
        await ran_once(cluster, ledger, run_id)
