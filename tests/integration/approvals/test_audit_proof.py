"""The proof beside the trail: signed heads outside the database, checkpoints, what is exported."""

from __future__ import annotations

import hashlib
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hango.approvals.v1 import approvals_pb2 as pb
from hango_approvals.domain.audit import GENESIS
from hango_approvals.domain.signing import Kind, Place, SignedPlace, Signer
from hango_approvals.postgres import rows
from pydantic import SecretStr

from tests.integration.approvals.test_audit import tampered, verify
from tests.support.approvals import decision, pending, running
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.approvals import Approvals, Tenant
    from tests.support.backend import NatsServer

SEED = "01" * 32
SIGNER = Signer(bytes.fromhex(SEED))


@asynccontextmanager
async def proving(dsn: str, nats: NatsServer, **settings: Any) -> AsyncIterator[Approvals]:
    """A service that signs."""
    key = {"audit_signing_key": SecretStr(SEED)}
    async with running(dsn, nats.url, **key, **settings) as service:
        yield service


async def chain_of(service: Approvals, tenant: Tenant) -> list[Any]:
    found = await service.rows(
        "SELECT * FROM audit_events WHERE tenant_id = $1 ORDER BY seq", tenant.id
    )
    return [rows.record(r) for r in found]


async def rewritten(service: Approvals, tenant: Tenant) -> None:
    """The whole chain forged by somebody who knows how it is made: every hash fits, the head too.
    He makes one row say that another user did it.
    """
    prev, statements = GENESIS, []
    for record in await chain_of(service, tenant):
        forged = replace(record, detail=record.detail.replace("member", "nobody"))
        digest = forged.hash_after(prev)
        statements.append(
            f"UPDATE audit_events SET detail = '{forged.detail}', prev_hash = '{prev}', "
            f"hash = '{digest}' WHERE tenant_id = '{tenant.id}' AND seq = {record.seq}"
        )
        prev = digest
    head = f"UPDATE audit_heads SET hash = '{prev}' WHERE tenant_id = '{tenant.id}'"
    await tampered(service, *statements, head)


async def test_only_a_signed_head_finds_a_chain_that_was_forged_whole(
    dsn: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    file = tmp_path / "heads.jsonl"
    settings = {"audit_anchor_file": file, "audit_anchor_interval": timedelta(milliseconds=50)}
    async with proving(dsn, nats_server, **settings) as service:
        tenant = await service.tenant()
        [*_, last] = await chain_of(service, tenant)

        async def anchored() -> SignedPlace | None:
            lines = file.read_bytes().splitlines() if file.exists() else []
            heads = [h for h in map(SignedPlace.of_line, lines) if h is not None]
            return next((h for h in heads if h.place.tenant_id == tenant.id), None)

        head = await eventually(anchored, what="the head was signed")
        assert SIGNER.holds(head, Kind.HEAD)
        assert (head.place.seq, head.place.hash) == (last.seq, last.hash)
        assert (await verify(service, tenant)).ok
        await rewritten(service, tenant)
        found = await verify(service, tenant)
        assert [p.problem for p in found.problems] == ["is not the row that a signed head names"]
        check = await service.sweep("CheckApprovals", pb.CheckApprovalsRequest())
        assert check.broken_chains == 1
    async with running(dsn, nats_server.url) as blind:
        assert (await verify(blind, tenant)).ok, "the chain alone does not tell"


async def test_a_chain_that_was_cut_back_with_its_head_is_found(
    dsn: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    file = tmp_path / "heads.jsonl"
    async with proving(dsn, nats_server, audit_anchor_file=file) as service:
        tenant = await service.tenant()
        [*_, before_last, last] = await chain_of(service, tenant)
        head = SIGNER.sign(Kind.HEAD, Place(tenant.id, last.seq, last.hash, last.at))
        forged = Signer(bytes(32)).sign(Kind.HEAD, replace(head.place, seq=99))
        file.write_bytes(forged.line() + head.line() + b"{half a line")
        assert (await verify(service, tenant)).ok, "what others signed does not count"
        await tampered(
            service,
            f"DELETE FROM audit_events WHERE tenant_id = '{tenant.id}' AND seq = {last.seq}",
            f"UPDATE audit_heads SET seq = {before_last.seq}, hash = '{before_last.hash}' "
            f"WHERE tenant_id = '{tenant.id}'",
        )
        found = await verify(service, tenant)
        assert [p.seq for p in found.problems] == [last.seq]


async def decided(service: Approvals, tenant: Tenant) -> None:
    pause = await service.open(tenant, [pending()])
    await service.decide(tenant["admin"], pause.run_id, [decision()])


async def test_rows_past_their_retention_are_pruned_behind_a_signed_checkpoint(
    dsn: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    settings = {"audit_retention": timedelta(milliseconds=1)}
    async with proving(dsn, nats_server, **settings) as service:
        tenant, other = await service.tenant(), await service.tenant()
        await decided(service, tenant)
        before = await chain_of(service, tenant)
        pruned = await service.sweep("PruneApprovals", pb.PruneApprovalsRequest(limit=100))
        assert pruned.deleted >= len(before) - 1
        left = await chain_of(service, tenant)
        assert [r.seq for r in left] == [before[-1].seq, before[-1].seq + 1]
        assert left[-1].action == "audit.prune"
        assert json.loads(left[-1].detail)["upto"] == before[-2].seq
        for one in (tenant, other):
            answer = await verify(service, one)
            assert (answer.ok, answer.checked) == (True, 2)
        check = await service.sweep("CheckApprovals", pb.CheckApprovalsRequest())
        assert (check.broken_chains, check.decided_unaudited) == (0, 0)
        await decided(service, tenant)
        assert (await verify(service, tenant)).ok
        exported = await service.as_user(tenant["admin"], "ExportAudit", pb.ExportAuditRequest())
        assert exported.checkpoint.seq == before[-2].seq
        assert exported.checkpoint.hash == before[-2].hash == exported.events[0].prev_hash

        # A checkpoint that the service has not signed hides nothing.
        cut = left[-1].seq
        await tampered(
            service,
            f"INSERT INTO audit_checkpoints SELECT tenant_id, {cut}, '{left[-1].hash}', at, "
            f"signature, public_key FROM audit_checkpoints WHERE tenant_id = '{tenant.id}'",
            f"DELETE FROM audit_events WHERE tenant_id = '{tenant.id}' AND seq <= {cut}",
        )
        found = await verify(service, tenant)
        assert [p.seq for p in found.problems] == [cut]
    async with running(dsn, nats_server.url) as keyless:
        assert not (await verify(keyless, other)).ok, "without the key nobody can tell"
    async with running(
        dsn,
        nats_server.url,
        audit_signing_key=SecretStr("02" * 32),
        audit_trusted_keys=SIGNER.public_key,
    ) as rotated:
        assert (await verify(rotated, other)).ok


async def test_a_head_is_no_checkpoint() -> None:
    place = Place("t", 3, "a" * 64, (await _now()))
    head = SIGNER.sign(Kind.HEAD, place)
    assert SIGNER.holds(head, Kind.HEAD)
    assert not SIGNER.holds(head, Kind.CHECKPOINT)
    assert not SIGNER.holds(replace(head, kind=Kind.CHECKPOINT), Kind.CHECKPOINT)
    assert not SIGNER.holds(replace(head, place=replace(place, seq=4)), Kind.HEAD)
    assert SignedPlace.of_line(head.line()) == head


async def _now() -> Any:
    from hango_platform import clock

    return clock.now()


async def test_the_export_can_be_verified_by_whoever_has_it(
    service: Approvals, tenant: Tenant
) -> None:
    await decided(service, tenant)
    after, prev, seen = 0, GENESIS, 0
    while True:
        request = pb.ExportAuditRequest(after=after, page_size=3)
        page = (await service.as_user(tenant["admin"], "ExportAudit", request)).events
        for e in page:
            columns = {
                "tenant_id": e.tenant_id,
                "seq": e.seq,
                "id": e.id,
                "at": e.at.ToDatetime().isoformat(timespec="microseconds") + "+00:00",
                "actor_kind": e.actor_kind,
                "actor_id": e.actor_id or None,
                "action": e.action,
                "target_kind": e.target_kind,
                "target_id": e.target_id,
                "run_id": e.run_id if e.HasField("run_id") else None,
                "outcome": e.outcome,
                "detail": e.detail_json.decode(),
                "trace_id": e.trace_id,
            }
            text = json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            assert hashlib.sha256(bytes.fromhex(prev) + text.encode()).hexdigest() == e.hash
            after, prev, seen = e.seq, e.hash, seen + 1
        if len(page) < 3:
            break
    assert seen == len(await chain_of(service, tenant))


CHANGES = [
    "UPDATE audit_events SET detail = ''",
    "DELETE FROM audit_events",
    "TRUNCATE audit_events",
    "UPDATE audit_checkpoints SET seq = 1",
    "DELETE FROM audit_checkpoints",
    "TRUNCATE audit_checkpoints",
]


@pytest.mark.parametrize("role", ["owner", "hango_api", "hango_system"])
@pytest.mark.parametrize("change", CHANGES)
async def test_nobody_who_works_in_the_database_changes_the_trail(
    service: Approvals, tenant: Tenant, role: str, change: str
) -> None:
    connection = await asyncpg.connect(service.dsn)
    count = "SELECT count(*) FROM audit_events"
    try:
        before = await connection.fetchval(count)
        transaction = connection.transaction()
        await transaction.start()
        if role == "owner":  # here the tables are a superuser's: who owns them cannot be so strong
            await connection.execute("CREATE ROLE audit_owner NOLOGIN NOBYPASSRLS")
            for table in ("audit_events", "audit_checkpoints"):
                await connection.execute(f"ALTER TABLE {table} OWNER TO audit_owner")
            await connection.execute("SET LOCAL ROLE audit_owner")
        else:
            await connection.execute(f"SET LOCAL ROLE {role}")
            await connection.execute("SELECT set_config('hango.tenant', $1, true)", tenant.id)
        refused = False
        try:
            await connection.execute(change)
        except asyncpg.InsufficientPrivilegeError:
            refused = True
        else:
            await connection.execute("RESET ROLE")
            assert await connection.fetchval(count) == before, "nothing was deleted"
        await transaction.rollback()
        # An owner is subject to the policies, and has none: he meets no row to delete.
        assert refused or (role, change) == ("owner", CHANGES[1])
    finally:
        await connection.close()
