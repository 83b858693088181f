"""A process that keeps one tool server, for a test that kills it: `host.py FILE`.

Prints the server's pid once it is connected.
"""

import asyncio
import sys
from pathlib import Path

import psutil
import uvloop
from hango_runner.tools.mcp_server import McpServer
from hango_runner.tools.server_file import load

from tests.support.waiting import eventually


async def main() -> None:
    (config,) = load(Path(sys.argv[1]))
    server = McpServer(config)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run())

        async def connected() -> bool:
            return server.connected

        await eventually(connected)
        (child,) = psutil.Process().children()
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()


uvloop.run(main())  # as the service does
