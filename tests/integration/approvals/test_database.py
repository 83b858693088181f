"""Migrations, row level security, and how much one decide costs."""

import re
from datetime import timedelta
from importlib.resources import files

import asyncpg
import pytest
from hango_approvals.domain.attempt import Attempt
from hango_approvals.domain.deciding import Decision
from hango_approvals.domain.suspension import (
    EXECUTION_TRANSITIONS,
    TRANSITIONS,
    DecisionKind,
    Execution,
    State,
)
from hango_approvals.mapping import approvals as mapping
from hango_approvals.postgres.store import Store
from hango_approvals.use_cases.decide import Decide
from hango_approvals.use_cases.open import OpenSuspension
from hango_platform import ids
from hango_platform.outbox.relay import Relay
from hango_platform.postgres.migrate import Migrator
from hango_platform.postgres.pool import Database
from hango_platform.telemetry.metrics import Metrics

from tests.support.approvals import Approvals, Tenant, pending
from tests.support.schema import dump, schema_file

PACKAGE = "hango_approvals.postgres"
TABLES = """SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS forced
              FROM pg_class c
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
               AND c.relname <> 'schema_migrations' ORDER BY 1"""


async def test_up_and_down_and_up_again(empty_database: str) -> None:
    migrator = Migrator(empty_database, PACKAGE)
    steps = len(await migrator.up())
    first = await dump(empty_database)
    assert first == schema_file(PACKAGE).read_text()
    for _ in range(steps):
        await migrator.down(1)
    connection = await asyncpg.connect(empty_database)
    try:
        assert await connection.fetch(TABLES) == []
    finally:
        await connection.close()
    assert len(await migrator.up()) == steps
    assert await dump(empty_database) == first


async def test_taking_back_the_suspensions_keeps_the_audit(empty_database: str) -> None:
    migrator = Migrator(empty_database, PACKAGE)
    await migrator.up()
    connection = await asyncpg.connect(empty_database)
    try:
        tenant_id = ids.new_id()
        await connection.execute(
            "INSERT INTO audit_events VALUES ($1, 1, $1, now(), 'system', NULL, 'approval.expire', "
            "'run', 'r', 'r', 'ok', '{}', '', '', '')",
            tenant_id,
        )
        await migrator.down(len(await migrator.status()) - 3)
        rows = await connection.fetch("SELECT tenant_id FROM audit_events")
        tables = {r["name"] for r in await connection.fetch(TABLES)}
    finally:
        await connection.close()
    assert [str(r["tenant_id"]) for r in rows] == [tenant_id]
    assert tables.isdisjoint({"suspensions", "pending_approvals"})


async def test_every_table_is_closed_to_other_tenants(service: Approvals, tenant: Tenant) -> None:
    await service.open(tenant, [pending()])
    tables = await service.rows(TABLES)
    assert [r["name"] for r in tables if not r["forced"]] == []
    connection = await asyncpg.connect(service.dsn)
    try:
        for name in (r["name"] for r in tables):
            if name == "outbox":
                continue  # callers only write there
            key = "id" if name == "tenants" else "tenant_id"
            counts = {}
            for setting in (None, "", ids.new_id(), tenant.id):
                async with connection.transaction():
                    await connection.execute("SET LOCAL ROLE hango_api")
                    if setting is not None:
                        await connection.execute(
                            "SELECT set_config('hango.tenant', $1, true)", setting
                        )
                    rows = await connection.fetch(f"SELECT {key} FROM {name}")
                assert {str(r[key]) for r in rows} <= {setting}
                counts[setting] = len(rows)
            assert counts[None] == counts[""] == 0
            if name not in ("idempotency", "audit_checkpoints", "tenant_keys"):
                assert counts[tenant.id] > 0
        async with connection.transaction():
            await connection.execute("SET LOCAL ROLE hango_api")
            await connection.execute("SELECT set_config('hango.tenant', $1, true)", ids.new_id())
            insert = "INSERT INTO users (id, tenant_id, name, role) VALUES ($1, $2, 'x', 'owner')"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(insert, ids.new_id(), tenant.id)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("constraint", "domain"),
    [
        ("suspensions_state_check", State),
        ("pending_approvals_state_check", State),
        ("pending_approvals_decision_check", DecisionKind),
        ("pending_approvals_execution_state_check", Execution),
    ],
)
async def test_the_database_knows_the_same_words(
    service: Approvals, constraint: str, domain: type[State]
) -> None:
    [row] = await service.rows(
        "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname = $1", constraint
    )
    assert set(re.findall(r"'(\w+)'", row["text"])) == {m.value for m in domain}


def test_the_tables_of_transitions_are_complete() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(EXECUTION_TRANSITIONS) == set(Execution)


async def test_what_a_pause_costs(service: Approvals, tenant: Tenant, dsn: str) -> None:
    """One commit each; at most 4 statements to open, at most 10 to decide."""
    database = Database(dsn, max_size=2)
    await database.open()
    try:
        store = Store(database, Relay(database, {}))
        await _copy_tenant(service, dsn, tenant)
        pause = await service.open(tenant, [pending(f"c{i}", index=i) for i in range(5)])
        opening = OpenSuspension(store, timedelta(hours=1))
        await opening(
            pause.id,
            mapping.origin(pause.request),
            mapping.calls(pause.request),
            turn=0,
            batch_sha256=b"x",
            traceparent="",
        )
        assert (database.stats.statements, database.stats.commits) == (3, 1)
        decisions = tuple(
            Decision(tool_call_id=f"c{i}", kind=DecisionKind.REJECT) for i in range(5)
        )
        attempt = Attempt(pause.run_id, decisions, "key", b"digest")
        deciding = Decide(store, None, Metrics())  # type: ignore[arg-type]  # nobody is asked
        await deciding(attempt, by=tenant["admin"])
        assert (database.stats.statements, database.stats.commits) == (3 + 10, 2)
    finally:
        await database.close()


async def _copy_tenant(service: Approvals, dsn: str, tenant: Tenant) -> None:
    """Let the tenant be known in another database too."""
    connection = await asyncpg.connect(dsn)
    try:
        for table, key in (("tenants", "id"), ("users", "tenant_id"), ("audit_heads", "tenant_id")):
            for row in await service.rows(f"SELECT * FROM {table} WHERE {key} = $1", tenant.id):
                columns = ", ".join(row.keys())
                places = ", ".join(f"${i + 1}" for i in range(len(row)))
                await connection.execute(
                    f"INSERT INTO {table} ({columns}) VALUES ({places})", *row.values()
                )
    finally:
        await connection.close()


def test_migrations_say_what_they_are_for() -> None:
    folder = files(PACKAGE) / "migrations"
    ups = [f for f in folder.iterdir() if f.name.endswith(".up.sql")]
    assert all(f.read_text().startswith("-- ") for f in ups)
