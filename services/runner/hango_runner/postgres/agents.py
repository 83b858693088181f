"""Agents in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango_platform.postgres.queries import load

from hango_runner.postgres.views import agent_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hango_platform.postgres.pool import Database
    from hango_platform.rpc.caller import Principal

    from hango_runner.domain.agent import AgentVersion
    from hango_runner.postgres.outbox import Outbox

SQL = load(__package__)


class SqlAgents:
    """Each method is one transaction."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def newest(self, tenant_id: str, name: str) -> AgentVersion | None:
        """The newest version, deleted or not."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.one(SQL.newest_agent, tenant_id, name)
        return None if row is None else agent_version(row)

    async def version(self, tenant_id: str, name: str, version: int) -> AgentVersion | None:
        """One version."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.one(SQL.agent_version, tenant_id, name, version)
        return None if row is None else agent_version(row)

    async def save(
        self, agent: AgentVersion, by: Principal, audit: Sequence[dict[str, Any]]
    ) -> AgentVersion | None:
        """A new version with its audit records."""
        async with self._database.tenant(agent.tenant_id) as tx:
            row = await tx.one(
                SQL.insert_agent,
                agent.tenant_id,
                agent.name,
                agent.version,
                agent.spec,
                agent.spec_sha256,
                agent.interrupt_on,
                list(agent.warnings),
                by.user_id,
            )
            if row is None:
                return None
            await self._outbox.audit(tx, agent.tenant_id, audit)
        return agent_version(row)

    async def list_page(
        self, tenant_id: str, after: tuple[datetime, str] | None, limit: int
    ) -> list[AgentVersion]:
        """The newest version of each agent in use, newest first."""
        time, name = after or (None, None)
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.many(SQL.list_agents, tenant_id, time, name, limit)
        return [agent_version(r) for r in rows]

    async def delete(self, tenant_id: str, name: str, audit: Sequence[dict[str, Any]]) -> bool:
        """Take it out of use."""
        async with self._database.tenant(tenant_id) as tx:
            deleted = await tx.exec(SQL.delete_agent, tenant_id, name) > 0
            if deleted:
                await self._outbox.audit(tx, tenant_id, audit)
        return deleted
