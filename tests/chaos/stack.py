"""`hango up` as chaos finds it: its own process, a tool server that counts, short leases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

from tests.e2e.up import Up
from tests.support.counting import QUICK, Ledger

if TYPE_CHECKING:
    from pathlib import Path

LEASE = 3.0
APPROVAL_TTL = 15.0
ENVIRONMENT = {
    "HANGO_LEASE_TTL": f"{LEASE:g}s",
    "HANGO_APPROVAL_TTL": f"{APPROVAL_TTL:g}s",
    "HANGO_LANES": "default:16",
}


@dataclass
class ChaosUp(Up):
    """The stack under fire."""

    def tools(self) -> str:
        """One server, the one that counts."""
        return Ledger(self.folder, QUICK).tool_servers.read_text()

    def superuser(self, database: str = "postgres") -> str:
        """The URL of the database server's administrator: only he may end others' sessions."""
        kept = json.loads((self.folder / "data" / "postgres" / "server.json").read_text())
        password = kept["passwords"]["postgres"]
        return f"postgresql://postgres:{password}@127.0.0.1:{kept['port']}/{database}"

    def dsn(self, service: str) -> str:
        """A service's database, for its administrator, who sees the rows of all tenants."""
        return self.superuser(f"hango_{service}")

    @property
    def jetstream(self) -> Path:
        """Where the broker keeps what it acknowledged."""
        return self.folder / "data" / "nats" / "jetstream"


async def rows(dsn: str, statement: str, *args: Any) -> list[Any]:
    """What the database says."""
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(statement, *args))
    finally:
        await connection.close()
