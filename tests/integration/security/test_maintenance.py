"""Every maintenance RPC works over all tenants, though row level security is in force: each finds
rows of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango_platform import ids
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens

if TYPE_CHECKING:
    from tests.integration.security.conftest import Site

TENANTS = ("", "b-")


async def paused(site: Site) -> list[str]:
    """A run of each tenant that waits for a decision."""
    return [str((await site.user(f"{t}member").start("gated")).id) for t in TENANTS]


async def states(site: Site, which: str, table: str, runs: list[str]) -> list[str]:
    key = "run_id" if which == "approvals" else "id"
    rows = await site.stack.sql(which, f"SELECT state FROM {table} WHERE {key} = ANY ($1)", runs)
    return [r["state"] for r in rows]


async def expire_suspensions(site: Site) -> None:
    runs = await paused(site)
    due = "UPDATE suspensions SET expires_at = clock_timestamp() WHERE run_id = ANY ($1)"
    await site.stack.sql("approvals", f"{due} RETURNING id", runs)
    await site.stack.maintain("ExpireSuspensions")
    assert await states(site, "approvals", "suspensions", runs) == ["expired"] * 2


async def reconcile_suspensions(site: Site) -> None:
    runs = await paused(site)
    gone = "UPDATE runs SET state = 'cancelled' WHERE id = ANY ($1) RETURNING id"
    await site.stack.sql("runner", gone, runs)
    old = (
        "UPDATE suspensions SET created_at = created_at - interval '2 min' WHERE run_id = ANY ($1)"
    )
    await site.stack.sql("approvals", f"{old} RETURNING id", runs)
    await site.stack.maintain("ReconcileSuspensions")
    assert await states(site, "approvals", "suspensions", runs) == ["withdrawn"] * 2


async def reconcile_runs(site: Site) -> None:
    runs = await paused(site)
    await site.stack.sql(
        "approvals",
        "WITH s AS (UPDATE suspensions SET state = 'expired', closed_at = clock_timestamp() "
        "WHERE run_id = ANY ($1)) "
        "UPDATE pending_approvals SET state = 'expired' WHERE run_id = ANY ($1) RETURNING id",
        runs,
    )
    await site.stack.maintain("ReconcileRuns")
    assert await states(site, "runner", "runs", runs) == ["failed"] * 2


async def reap_runs(site: Site) -> None:
    runs = await paused(site)
    left = (
        "UPDATE runs SET state = 'running', lane = 'nobody', suspension_id = NULL, "
        "awaiting_since = NULL, lease_owner = 'dead', lease_until = clock_timestamp() "
        "WHERE id = ANY ($1) RETURNING id"
    )
    await site.stack.sql("runner", left, runs)
    await site.stack.maintain("ReapRuns")
    assert await states(site, "runner", "runs", runs) == ["queued"] * 2


async def prunes(site: Site, which: str, method: str) -> None:
    rows = await site.stack.sql("approvals", "SELECT id FROM tenants ORDER BY name")
    made = [ids.new_id() for _ in rows]
    for row, outbox_id in zip(rows, made, strict=True):
        await site.stack.sql(
            which,
            "INSERT INTO outbox (id, tenant_id, kind, key, payload, traceparent, leased_until, "
            "published_at) VALUES ($1, $2, 'x', 'x', '', '', now(), now() - interval '2 days') "
            "RETURNING id",
            outbox_id,
            row["id"],
        )
    await site.stack.maintain(method)
    left = await site.stack.sql(which, "SELECT id FROM outbox WHERE id = ANY ($1)", made)
    assert left == []


async def prune_approvals(site: Site) -> None:
    await prunes(site, "approvals", "PruneApprovals")


async def prune_runs(site: Site) -> None:
    await prunes(site, "runner", "PruneRuns")


async def check_approvals(site: Site) -> None:
    async def broken() -> int:
        channel = Channel(site.stack.approvals_addr, Tokens(site.stack.internal_key, "sweeper"))
        stub = agrpc.ApprovalsMaintenanceServiceStub(channel.raw)
        answer: Any = await channel.call(stub.CheckApprovals, apb.CheckApprovalsRequest())
        await channel.close()
        return int(answer.broken_chains)

    moved = "UPDATE audit_heads SET seq = seq + {} RETURNING seq"
    assert await broken() == 0
    await site.stack.sql("approvals", moved.format(1))
    try:
        assert await broken() == 2
    finally:
        await site.stack.sql("approvals", moved.format(-1))


CASES = {
    "ExpireSuspensions": expire_suspensions,
    "ReconcileSuspensions": reconcile_suspensions,
    "PruneApprovals": prune_approvals,
    "CheckApprovals": check_approvals,
    "ReapRuns": reap_runs,
    "ReconcileRuns": reconcile_runs,
    "PruneRuns": prune_runs,
}


def test_every_maintenance_rpc_has_a_case() -> None:
    services = (
        apb.DESCRIPTOR.services_by_name["ApprovalsMaintenanceService"],
        rpb.DESCRIPTOR.services_by_name["RunsMaintenanceService"],
    )
    assert {method.name for service in services for method in service.methods} == CASES.keys()


@pytest.mark.parametrize("method", CASES)
async def test_it_finds_rows_of_two_tenants(site: Site, method: str) -> None:
    await CASES[method](site)
