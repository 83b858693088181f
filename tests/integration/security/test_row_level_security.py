"""Row level security of both databases: every table by every verb by the other tenant; no rows
where no tenant is set; and no table without it.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import types_pb2
from hango_platform import ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.security.conftest import Site

DATABASES = ("approvals", "runner")
ROLES = ("hango_api", "hango_system")
# What belongs to no tenant.
EXEMPT = {"schema_migrations"}
MINE = "({key} = (NULLIF(current_setting('hango.tenant'::text, true), ''::text))::uuid)"

UNPROTECTED = """
SELECT c.relname AS name, a.attname AS key, c.relrowsecurity AND c.relforcerowsecurity AS forced,
       pg_get_userbyid(c.relowner) AS owner,
       (SELECT json_object_agg(p.roles[1], json_build_array(p.permissive, p.cmd, p.qual,
               p.with_check, cardinality(p.roles)))::text
          FROM pg_policies p WHERE p.schemaname = 'public' AND p.tablename = c.relname) AS policies,
       (SELECT count(*) FROM pg_policies p
         WHERE p.schemaname = 'public' AND p.tablename = c.relname) AS number
  FROM pg_class c
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnotnull
       AND a.attname = CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
 ORDER BY 1"""


def dsn(site: Site, which: str) -> str:
    return site.stack.approvals_dsn if which == "approvals" else site.stack.runner_dsn


@asynccontextmanager
async def undone(site: Site, which: str) -> AsyncIterator[Any]:
    """A transaction of the superuser that is rolled back."""
    connection = await asyncpg.connect(dsn(site, which))
    try:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()
    finally:
        await connection.close()


async def faults(connection: Any) -> list[str]:
    """The relations that are not protected as they must be, and why."""

    found = []
    for row in await connection.fetch(UNPROTECTED):
        if row["name"] in EXEMPT:
            continue
        mine = MINE.format(key=row["key"])
        wanted = {
            "hango_api": ["PERMISSIVE", "ALL", mine, mine, 1],
            "hango_system": ["PERMISSIVE", "ALL", "true", "true", 1],
        }
        if row["key"] is None:
            found.append(f"{row['name']} names no tenant")
        elif not row["forced"]:
            found.append(f"{row['name']} has no forced row level security")
        elif row["number"] != 2 or json.loads(row["policies"]) != wanted:
            found.append(f"{row['name']} has other policies")
        elif row["owner"] in ROLES:
            found.append(f"{row['name']} is owned by a role that works with it")
    return found


@pytest.fixture(scope="module")
async def tenants(site: Site) -> tuple[str, str]:
    """Both tenants' ids; every table has rows of both."""
    for prefix in ("", "b-"):
        member, admin = site.user(f"{prefix}member"), site.user(f"{prefix}admin")
        key = ids.new_id()
        run = await member.start("gated", thread_id="t", idempotency_key=key)
        stub = agrpc.ApprovalsServiceStub(admin.approvals)
        decision = apb.Decision(tool_call_id="c1", decision=types_pb2.DECISION_KIND_APPROVE)
        request = apb.DecideApprovalsRequest(
            run_id=run.id, decisions=[decision], idempotency_key=key
        )
        await admin.call(stub.DecideApprovals, request)
        await member.finished(run.id)
    rows = await site.stack.sql("approvals", "SELECT id FROM tenants ORDER BY name")
    one, other = (str(r["id"]) for r in rows)
    for tenant in (one, other):
        await site.stack.sql(
            "approvals",
            "INSERT INTO audit_checkpoints (tenant_id, seq, hash, at, signature, public_key) "
            "VALUES ($1, 0, '', now(), '', '') RETURNING seq",
            tenant,
        )
        await site.stack.sql(
            "runner",
            "INSERT INTO subagent_calls (tenant_id, run_id, path, name) "
            "SELECT tenant_id, id, '0.0', 'x' FROM runs WHERE tenant_id = $1 LIMIT 1 "
            "RETURNING path",
            tenant,
        )
        for which in DATABASES:
            await site.stack.sql(
                which, "INSERT INTO tenant_keys VALUES ($1, '') RETURNING tenant_id", tenant
            )
    return one, other


@pytest.mark.parametrize("which", DATABASES)
async def test_every_table_is_protected(site: Site, which: str) -> None:
    async with undone(site, which) as connection:
        assert await faults(connection) == []


NEW_TABLES = {
    "without a tenant": "CREATE TABLE fresh (id uuid PRIMARY KEY)",
    "without security": "CREATE TABLE fresh (tenant_id uuid NOT NULL)",
    "without force": "CREATE TABLE fresh (tenant_id uuid NOT NULL); "
    "ALTER TABLE fresh ENABLE ROW LEVEL SECURITY",
    "without policies": "CREATE TABLE fresh (tenant_id uuid NOT NULL); "
    "ALTER TABLE fresh ENABLE ROW LEVEL SECURITY; ALTER TABLE fresh FORCE ROW LEVEL SECURITY",
    "with a policy that lets all pass": "CREATE TABLE fresh (tenant_id uuid NOT NULL); "
    "ALTER TABLE fresh ENABLE ROW LEVEL SECURITY; ALTER TABLE fresh FORCE ROW LEVEL SECURITY; "
    "CREATE POLICY a ON fresh TO hango_api USING (true); "
    "CREATE POLICY b ON fresh TO hango_system USING (true) WITH CHECK (true)",
    "as a view": "CREATE VIEW fresh AS SELECT tenant_id FROM outbox",
}


@pytest.mark.parametrize("statement", NEW_TABLES.values(), ids=list(NEW_TABLES))
async def test_a_new_table_that_is_not_would_be_found(site: Site, statement: str) -> None:
    async with undone(site, "runner") as connection:
        await connection.execute(statement)
        [fault] = await faults(connection)
        assert fault.startswith("fresh ")


@pytest.mark.parametrize("which", DATABASES)
async def test_the_roles_cannot_get_around_it(site: Site, which: str) -> None:
    async with undone(site, which) as connection:
        for role in ROLES:
            found = await connection.fetchrow(
                "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb "
                "FROM pg_roles WHERE rolname = $1",
                role,
            )
            assert set(found.values()) == {False}
            for table in await tables(connection):
                for privilege in ("TRUNCATE", "REFERENCES", "TRIGGER"):
                    held = "SELECT has_table_privilege($1, $2, $3)"
                    assert not await connection.fetchval(held, role, table, privilege), table


async def tables(connection: Any) -> list[str]:
    found = await connection.fetch(UNPROTECTED)
    return [r["name"] for r in found if r["name"] not in EXEMPT]


async def become(connection: Any, tenant: str | None) -> None:
    """A caller of this tenant, with every grant there is: only the policies stand in his way."""
    await connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO hango_api")
    await connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO hango_api")
    await connection.execute("SET LOCAL ROLE hango_api")
    if tenant is not None:
        await connection.execute("SELECT set_config('hango.tenant', $1, true)", tenant)


async def attempt(connection: Any, statement: str, *args: object) -> int:
    """How many rows a statement touched; a refusal touches none."""
    try:
        async with connection.transaction():
            status: str = await connection.execute(statement, *args)
    except asyncpg.InsufficientPrivilegeError:
        return 0
    return int(status.rpartition(" ")[2])


@pytest.mark.parametrize("verb", ["SELECT", "INSERT", "UPDATE", "DELETE", "hand over"])
@pytest.mark.parametrize("which", DATABASES)
async def test_every_table_is_closed_to_the_other_tenant(
    site: Site, tenants: tuple[str, str], which: str, verb: str
) -> None:
    owner, other = tenants
    async with undone(site, which) as connection:
        names = await tables(connection)
        samples = {}
        for name in names:
            key = "id" if name == "tenants" else "tenant_id"
            sample = f"SELECT to_jsonb(t)::text FROM {name} t WHERE {key} = $1 LIMIT 1"
            samples[name] = await connection.fetchval(sample, owner)
            assert samples[name], f"{name} has no row to try it on: extend the fixture"
        await become(connection, other)
        for name in names:
            key = "id" if name == "tenants" else "tenant_id"
            match verb:
                case "SELECT":
                    assert await connection.fetchval(f"SELECT count(*) FROM {name}") > 0, name
                    touched = await attempt(
                        connection, f"SELECT 1 FROM {name} WHERE {key} = $1", owner
                    )
                case "INSERT":
                    touched = await attempt(
                        connection,
                        f"INSERT INTO {name} OVERRIDING SYSTEM VALUE "
                        f"SELECT * FROM jsonb_populate_record(NULL::{name}, $1::text::jsonb)",
                        samples[name],
                    )
                case "UPDATE":
                    touched = await attempt(
                        connection, f"UPDATE {name} SET {key} = {key} WHERE {key} = $1", owner
                    )
                case "DELETE":
                    touched = await attempt(
                        connection, f"DELETE FROM {name} WHERE {key} = $1", owner
                    )
                case _:
                    touched = await attempt(connection, f"UPDATE {name} SET {key} = $1", owner)
            assert touched == 0, name


@pytest.mark.parametrize("tenant", [None, ""], ids=["never set", "set and reset"])
@pytest.mark.parametrize("which", DATABASES)
async def test_without_a_tenant_there_are_no_rows(
    site: Site, tenants: tuple[str, str], which: str, tenant: str | None
) -> None:
    async with undone(site, which) as connection:
        names = await tables(connection)
        samples = {
            name: await connection.fetchval(f"SELECT to_jsonb(t)::text FROM {name} t LIMIT 1")
            for name in names
        }
        await become(connection, tenant)
        for name in names:
            key = "id" if name == "tenants" else "tenant_id"
            for statement in (
                f"SELECT 1 FROM {name}",
                f"UPDATE {name} SET {key} = {key}",
                f"DELETE FROM {name}",
            ):
                assert await attempt(connection, statement) == 0, statement
            insert = (
                f"INSERT INTO {name} OVERRIDING SYSTEM VALUE "
                f"SELECT * FROM jsonb_populate_record(NULL::{name}, $1::text::jsonb)"
            )
            assert await attempt(connection, insert, samples[name]) == 0, name


@pytest.mark.parametrize("which", DATABASES)
async def test_the_service_itself_is_in_a_role_before_its_first_statement(
    site: Site, which: str
) -> None:
    """Its login owns nothing and inherits nothing: between transactions it can read no table."""
    async with undone(site, which) as connection:
        await connection.execute("CREATE ROLE a_service LOGIN NOINHERIT IN ROLE hango_api")
        await connection.execute("SET LOCAL ROLE a_service")
        for name in await tables(connection):
            assert await attempt(connection, f"SELECT 1 FROM {name}") == 0
