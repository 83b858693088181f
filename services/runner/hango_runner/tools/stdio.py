"""A tool server as a child process, and its pipes as the message streams of an MCP session.

Why not the library's own `stdio_client`: it passes seven variables of our environment on, reads
lines of any length, logs what it cannot read, and does not say when the server is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from hango_runner.tools import child
from hango_runner.tools.link import MAX_MESSAGE_BYTES, Link

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Mapping

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from hango_runner.tools.server_file import ServerConfig

log = logging.getLogger(__name__)

WRITE_TIMEOUT = 30.0
"""Seconds after which a server that does not read its input is given up."""
STOP_TIMEOUT = 1.0
"""Seconds that a server has to end by itself once its input is closed."""

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_MAX_COMPLAINT = 2000


@asynccontextmanager
async def open_link(config: ServerConfig) -> AsyncIterator[Link]:
    """Start the server; end it, and whatever it started, on leaving.

    Must be used on the thread that lives as long as the process: the kernel kills the child when
    the thread that forked it ends. Raises OSError where it cannot be started.
    """
    process = await _spawn(config)
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None  # noqa: S101 - all three were asked for
    assert stdout is not None  # noqa: S101
    assert stderr is not None  # noqa: S101
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    # Unbounded, so that no caller ever waits here: what a server does not read is bounded by the
    # calls in flight and by WRITE_TIMEOUT.
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](math.inf)
    link = Link(incoming, outgoing)
    pumps = [
        asyncio.create_task(_read(stdout, to_session, link)),
        asyncio.create_task(_write(stdin, from_session, link)),
        asyncio.create_task(_listen(stderr, link)),
    ]
    try:
        yield link
    finally:
        link.closed.set()
        await _stop(process, stdin)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for stream in (to_session, incoming, outgoing, from_session):
            stream.close()


async def _spawn(config: ServerConfig) -> Process:
    argv = config.argv()
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        child.__file__,
        str(os.getpid()),
        *argv,
        cwd=config.folder,
        env=_environment(Path(argv[0]), config.env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_MESSAGE_BYTES,
        start_new_session=True,
    )


def _environment(program: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What the operator wrote, and a PATH where he wrote none; nothing of our own environment.

    The program's folder comes first: `npx` needs the `node` beside it.
    """
    return {"PATH": f"{program.parent}:{_SYSTEM_PATH}", **given}


async def _read(
    stdout: StreamReader, to_session: MemoryObjectSendStream[SessionMessage | Exception], link: Link
) -> None:
    try:
        async with to_session:
            while line := await stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    # Some servers greet on stdout. What it says may hold arguments: not logged.
                    log.debug("a line of a tool server is no message", extra={"bytes": len(line)})
                else:
                    await to_session.send(SessionMessage(message))
    except ValueError:
        log.warning("a message of a tool server is too long", extra={"limit": MAX_MESSAGE_BYTES})
    except (ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the session or the server ended: `closed` says so
    finally:
        link.closed.set()


async def _write(
    stdin: StreamWriter, from_session: MemoryObjectReceiveStream[SessionMessage], link: Link
) -> None:
    try:
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            async with asyncio.timeout(WRITE_TIMEOUT):
                await stdin.drain()
    except TimeoutError:
        log.warning("a tool server does not read its input", extra={"seconds": WRITE_TIMEOUT})
    except ConnectionError:
        pass  # the server ended: `closed` says so
    finally:
        link.closed.set()


async def _listen(stderr: StreamReader, link: Link) -> None:
    """Keep its stderr flowing; remember the end of it until the link is ready."""
    while chunk := await stderr.read(4096):
        link.complaint = b"" if link.ready else (link.complaint + chunk)[-_MAX_COMPLAINT:]


async def _stop(process: Process, stdin: StreamWriter) -> None:
    """Close its input, give it a moment, then kill it and all of its group."""
    stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
    except TimeoutError:  # something that left its group holds the pipes; its input is closed
        log.warning("a tool server's pipes stay open", extra={"pid": process.pid})
