"""Hands out transactions: the only way to a connection, so that no statement runs without a role
and a tenant.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

from hango_platform import faults
from hango_platform.errors import OutcomeUnknown, Unavailable
from hango_platform.ids import is_id
from hango_platform.postgres.transaction import Stats, Transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hango_platform.postgres.sealing import Sealing

log = logging.getLogger(__name__)

Connection = Any  # asyncpg's pool proxy; its stubs name it by a union that helps nobody
_GONE = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what it says when the server's farewell came between statements
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # the server shuts down, crashed, or starts
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
)
_BEGIN_TIMEOUT = 2.0
_STATEMENTS_KEPT = 200
_LIMITS = {"idle_in_transaction_session_timeout": "20s", "lock_timeout": "5s"}
_BUSY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


async def _keep_session(_connection: Connection) -> None:
    """No reset at release: it costs a round trip, and no session state is ever set."""


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many connections a pool has, and how many of them nobody holds."""

    size: int
    free: int


class Database:
    """A pool of connections to one database.

    Transactions raise Unavailable where nothing was changed, and OutcomeUnknown where the answer
    to a COMMIT did not come back.

    Every transaction is in one of two roles (protocol, section 9): `hango_api` sees the rows of
    one tenant, `hango_system` sees all rows of the few tables it is granted. The role and the
    tenant are set for the transaction alone, in the message that begins it.

    With `pooled` the DSN may lead through a pooler in transaction mode, such as pgbouncer: nothing
    is left behind in a session then, not a setting and not a prepared statement.
    """

    def __init__(
        self,
        dsn: str,
        *,
        max_size: int = 10,
        acquire_timeout: float = 1.0,
        pooled: bool = False,
        sealing: Sealing | None = None,
    ) -> None:
        self._dsn = dsn
        self._pooled = pooled
        self._sealing = sealing
        self._max_size = max_size
        self._acquire_timeout = acquire_timeout
        self._pool: Any = None
        self.stats = Stats()

    async def open(self) -> None:
        """Connect. Raises what asyncpg raises when the database cannot be reached."""
        self._pool = await asyncpg.create_pool(
            self._dsn,
            min_size=1,
            max_size=self._max_size,
            max_inactive_connection_lifetime=60,
            reset=_keep_session,
            command_timeout=30,
            server_settings={"application_name": "hango", **({} if self._pooled else _LIMITS)},
            statement_cache_size=0 if self._pooled else _STATEMENTS_KEPT,
        )

    async def close(self) -> None:
        """Give connections that are in use 5 seconds, then end them."""
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()

    def size(self) -> PoolSize:
        """The pool as it is now."""
        return PoolSize(self._pool.get_size(), self._pool.get_idle_size())

    def max_size(self) -> int:
        """The most connections that the pool opens."""
        return self._max_size

    @asynccontextmanager
    async def tenant(self, tenant_id: str) -> AsyncIterator[Transaction]:
        """A transaction that sees this tenant's rows alone."""
        if not is_id(tenant_id):
            msg = "a tenant is named by its id"
            raise ValueError(msg)
        begin = f"BEGIN; SET LOCAL ROLE hango_api; SET LOCAL hango.tenant = '{tenant_id}'"
        async with self._transaction(begin) as tx:
            yield tx

    @asynccontextmanager
    async def system(self) -> AsyncIterator[Transaction]:
        """A transaction over all tenants, for claiming, reaping, expiring, relaying and
        credentials.
        """
        async with self._transaction("BEGIN; SET LOCAL ROLE hango_system") as tx:
            yield tx

    async def ping(self) -> None:
        """Raise Unavailable unless the database answers within a second."""
        try:
            async with asyncio.timeout(1), self.system():
                pass
        except TimeoutError:
            msg = "the database does not answer"
            raise Unavailable(msg) from None

    async def _acquire(self) -> Connection:
        try:
            return await self._pool.acquire(timeout=self._acquire_timeout)
        except TimeoutError:
            msg = "every database connection is in use"
            raise Unavailable(msg) from None
        except (*_GONE, asyncpg.PostgresError) as error:
            msg = "the database cannot be reached"
            raise Unavailable(msg) from error

    @asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncIterator[Transaction]:
        if self._pooled:
            begin += "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _LIMITS.items())
        connection = await self._acquire()
        tx = Transaction(connection, self.stats, self._sealing)
        try:
            # It waits for nobody: a server that does not answer is one that cannot be reached.
            await connection.execute(begin, timeout=_BEGIN_TIMEOUT)
            yield tx
        except BaseException as error:
            await asyncio.shield(self._undo(connection))
            if isinstance(error, _GONE):
                msg = "the connection to the database was lost"
                raise Unavailable(msg) from error
            if isinstance(error, _BUSY):
                msg = "somebody else holds what this needs"
                raise Unavailable(msg) from error
            raise
        # Once COMMIT is on its way its outcome must be known here, whatever becomes of the caller.
        lost = faults.ACTIVE and faults.answer_is_lost()
        await asyncio.shield(self._commit(connection, tx, lost=lost))

    async def _commit(self, connection: Connection, tx: Transaction, *, lost: bool) -> None:
        try:
            await connection.execute("COMMIT")
            if lost:
                raise ConnectionResetError
        except _GONE as error:
            msg = "the connection to the database was lost while committing"
            # Only of a change can it matter whether it was done.
            raise (OutcomeUnknown if tx.writes else Unavailable)(msg) from error
        finally:
            await self._pool.release(connection)
        self.stats.commits += tx.writes
        for hook in tx.hooks:
            hook()

    async def _undo(self, connection: Connection) -> None:
        try:
            await connection.execute("ROLLBACK", timeout=1)
        except (*_GONE, TimeoutError, asyncpg.PostgresError):
            # Of a session that the server ended asyncpg has let go already, and refuses to speak.
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
        finally:
            await self._pool.release(connection)
