"""The service as its neighbours and operators meet it: health, metrics, logs, loss of its parts."""

import logging
import urllib.request
from typing import Any

import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hango.approvals.v1 import approvals_pb2 as pb
from hango_approvals import app
from hango_platform import errors, ids

from tests.integration.platform.test_pool import end_sessions
from tests.support.approvals import Approvals, Tenant, decision, pending, running
from tests.support.backend import NatsServer, PostgresServer
from tests.support.waiting import eventually

SERVING = health_pb2.HealthCheckResponse.SERVING
SECRET = "s3cret-value"


async def until_health(service: Approvals, *, ready: bool) -> None:
    """Until the health check says this of every service."""
    async with aio.insecure_channel(service.addr) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)

        async def check() -> bool:
            for name in ("", "hango.approvals.v1.ApprovalsService"):
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
                if (answer.status == SERVING) is not ready:
                    return False
            return True

        await eventually(check, what=f"ready: {ready}")


def scraped(service: Approvals) -> str:
    with urllib.request.urlopen(service.metrics) as answer:
        text: str = answer.read().decode()
    return text


async def test_readiness_is_the_databases_and_a_lost_session_is_got_over(
    nats_server: NatsServer, postgres_server: PostgresServer, dsn: str
) -> None:
    async with running(dsn, nats_server.url) as service:
        await until_health(service, ready=True)
        name = dsn.rpartition("/")[2]
        admin = dsn.replace(name, "postgres")
        with_closed_door = Approvals(admin, service.addr, service.metrics, service.runs)
        await with_closed_door.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await with_closed_door.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
        )
        await until_health(service, ready=False)
        with pytest.raises(errors.Unavailable):
            await service.tenant()
        await with_closed_door.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await until_health(service, ready=True)
        assert (await service.tenant()).users


async def test_it_is_ready_without_nats_and_without_the_runner(dsn: str) -> None:
    async with running(dsn, "nats://127.0.0.1:1", runner_addr="127.0.0.1:1") as service:
        await until_health(service, ready=True)
        tenant = await service.tenant()
        pause = await service.open(tenant, [pending()])
        answer = await service.decide(tenant["admin"], pause.run_id, [decision()])
        assert answer.suspension_id == pause.id
        with pytest.raises(errors.Unavailable):
            await service.decide(tenant["admin"], ids.new_id(), [decision()])


async def test_metrics_count_what_is_pending_decided_and_expired(
    nats_server: NatsServer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_GAUGE_SECONDS", 0.05)
    async with running(dsn, nats_server.url) as service:
        tenant = await service.tenant()
        waiting = await service.open(tenant, [pending(), pending("c2", index=1)])
        decided = await service.open(tenant, [pending()])
        await service.decide(tenant["admin"], decided.run_id, [decision("c1", "reject")])
        late = await service.open(tenant, [pending()])
        await service.execute(
            "UPDATE suspensions SET expires_at = clock_timestamp() WHERE id = $1", late.id
        )
        await service.sweep("ExpireSuspensions", pb.ExpireSuspensionsRequest(limit=10))
        lines = scraped(service).splitlines()
        assert 'hango_approvals_decisions_total{decision="reject",tool="pay"} 1.0' in lines
        assert 'hango_approvals_expired_total{tool="pay"} 1.0' in lines
        assert "hango_approvals_wait_time_count 1.0" in lines

        async def measured() -> bool:
            return 'hango_approvals_pending{tool="pay"} 2.0' in scraped(service)

        await eventually(measured, what="two calls pending")
        await service.decide(
            tenant["admin"], waiting.run_id, [decision("c1", "reject"), decision("c2", "reject")]
        )

        async def measured_again() -> bool:
            return 'hango_approvals_pending{tool="pay"} 0.0' in scraped(service)

        await eventually(measured_again, what="no call pending")
        assert SECRET not in scraped(service)


async def test_requests_decisions_and_refusals_are_logged_without_values(
    service: Approvals, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    arguments = b'{"to":"%s","amount":150}' % SECRET.encode()
    pause = await service.open(tenant, [pending("c1", arguments)])
    wrong = decision("c1", "edit", args_json=b'{"to":"%s"}' % SECRET.encode())
    with pytest.raises(errors.EditInvalid):
        await service.decide(tenant["admin"], pause.run_id, [wrong])
    right = decision("c1", "edit", args_json=arguments, message=SECRET)
    await service.decide(tenant["admin"], pause.run_id, [right])
    lines: dict[str, Any] = {
        r.message: r.__dict__ for r in caplog.records if r.name.startswith("hango_approvals")
    }
    assert set(lines) >= {"approval requested", "decision refused", "approval decided"}
    decided = lines["approval decided"]
    assert (decided["run_id"], decided["tool"], decided["tool_call_id"]) == (
        pause.run_id,
        "pay",
        "c1",
    )
    assert (decided["decision"], decided["decided_by"]) == ("edit", tenant["admin"].user_id)
    assert lines["decision refused"]["reason"] == "EDIT_INVALID"
    assert SECRET not in str([r.__dict__ for r in caplog.records])


async def test_sessions_that_end_do_not_end_the_service(nats_server: NatsServer, dsn: str) -> None:
    async with running(dsn, nats_server.url) as service:
        tenant = await service.tenant()
        for _ in range(3):
            await end_sessions(dsn)

            async def opens() -> bool:
                try:
                    return bool(await service.open(tenant, [pending()]))
                except errors.Unavailable:
                    return False

            await eventually(opens, what="a suspension, after the sessions had ended")
