"""LISTEN on a connection of its own, with a pulse: one that died silently is noticed and
replaced.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import asyncpg

from hango_platform.ids import jitter
from hango_platform.postgres.queries import load

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

SQL = load(__package__)


async def listen(
    dsn: str, channel: str, heard: Callable[[str], None], *, pulse: float = 5.0
) -> None:
    """Call `heard` with each notification's payload, for ever.

    After every (re)connect it is called once with an empty payload: first LISTEN, then look at
    what came meanwhile.
    """
    while True:
        connection: Any = None
        try:
            connection = await asyncpg.connect(dsn, timeout=5, command_timeout=pulse)
            await connection.add_listener(channel, lambda *args: heard(args[3]))
            heard("")
            while True:
                await asyncio.sleep(pulse)
                await connection.execute(SQL.pulse.sql)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            log.warning(
                "listening again", extra={"channel": channel, "error": type(error).__name__}
            )
        finally:
            if connection is not None:
                connection.terminate()
        await asyncio.sleep(jitter())
