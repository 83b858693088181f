"""Both services behind a pooler in transaction mode: tenants never meet in a session that they
share, and nothing is left in one.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hango.common.v1 import types_pb2
from hango_platform.postgres.pool import Database
from hango_platform.postgres.queries import Query

from tests.integration.security.conftest import GATED
from tests.support import bouncer
from tests.support.stack import running_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.bouncer import Bouncer

_CONNECTIONS = 3


@pytest.fixture
def pooler(postgres_server: PostgresServer) -> Iterator[Bouncer]:
    if bouncer.PROGRAM is None:
        if os.environ.get("CI"):
            pytest.fail("pgbouncer is not installed")
        pytest.skip("NOT TESTED: pgbouncer is not installed (Debian package pgbouncer)")
    with bouncer.bouncing(postgres_server.admin_dsn, connections=_CONNECTIONS) as running:
        yield running


async def test_both_services_work_through_it(
    postgres_server: PostgresServer, nats_server: NatsServer, pooler: Bouncer
) -> None:
    async with running_stack(postgres_server, nats_server) as stack:
        for service, dsn in (("runner", stack.runner_dsn), ("approvals", stack.approvals_dsn)):
            await stack.stop(service)
            given = {f"{service}_dsn": pooler.through(dsn), "postgres_pooler": True}
            stack.overrides = {**stack.overrides, service: given}
        await stack.start_approvals()
        await stack.start_runner()
        for tenant in ("", "b-"):
            await stack.users[f"{tenant}owner"].save_agent(GATED)

        async def cycle(tenant: str) -> str:
            member, admin = stack.users[f"{tenant}member"], stack.users[f"{tenant}admin"]
            run = await member.start("gated", wait=30)
            assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
            await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})
            done = await member.finished(run.id, wait=30)
            assert done.state == types_pb2.RUN_STATE_SUCCEEDED
            return str(done.id)

        runs: dict[str, set[str]] = {"": set(), "b-": set()}
        work = [(tenant, cycle(tenant)) for _ in range(6) for tenant in runs]
        done = await asyncio.gather(*(w for _, w in work))
        for (tenant, _), run_id in zip(work, done, strict=True):
            runs[tenant].add(run_id)
        for tenant, made in runs.items():
            admin = stack.users[f"{tenant}admin"]
            assert {r.id for r in await admin.runs()} == made
            assert {a.run_id for a in await admin.approval_list()} == made
        # More clients than sessions: they were shared.
        for which in ("approvals", "runner"):
            [row] = await stack.sql(
                which,
                "SELECT count(*) AS n FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'",
            )
            assert row["n"] <= _CONNECTIONS


async def test_nothing_is_left_in_a_shared_session(
    postgres_server: PostgresServer, pooler: Bouncer, empty_database: str
) -> None:
    """One after the other on one session: who comes next finds no role, tenant or statement."""
    tenant = "01890000-0000-7000-8000-000000000001"
    with bouncer.bouncing(postgres_server.admin_dsn, connections=1) as narrow:
        admin = await asyncpg.connect(empty_database)
        try:
            for role in ("hango_api", "hango_system"):
                if not await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                    await admin.execute(f"CREATE ROLE {role} NOLOGIN NOBYPASSRLS")
        finally:
            await admin.close()
        databases = [Database(narrow.through(empty_database), pooled=True) for _ in range(2)]
        for database in databases:
            await database.open()
        look = Query(
            "look",
            "one",
            "SELECT current_user AS who, current_setting('hango.tenant', true) AS tenant, "
            "current_setting('lock_timeout') AS patience, pg_backend_pid() AS session, "
            "(SELECT count(*) FROM pg_prepared_statements WHERE name <> '') AS kept "
            "WHERE $1::int = 1",
        )
        seen: list[Any] = []
        try:
            for _ in range(3):
                for database in databases:
                    async with database.tenant(tenant) as tx:
                        seen.append(await tx.one(look, 1))
                    async with database.system() as tx:
                        seen.append(await tx.one(look, 1))
        finally:
            for database in databases:
                await database.close()
    assert len({row["session"] for row in seen}) == 1
    assert [row["who"] for row in seen] == ["hango_api", "hango_system"] * 6
    assert [row["tenant"] for row in seen] == [tenant, ""] * 6
    assert {row["patience"] for row in seen} == {"5s"}
    assert {row["kept"] for row in seen} == {0}
