"""A connection to an MCP server, as the message streams that a session of the library works on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from hango_runner.tools.server_file import ServerConfig

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message of a server."""
UNSENT = object()
"""The `data` of an error of ours: the request did not reach the server, or was refused unread.

An object and no code, so that no server can say it.
"""


@dataclass(slots=True)
class Link:
    """An open connection. `closed` is set as soon as it is of no more use."""

    incoming: MemoryObjectReceiveStream[SessionMessage | Exception]
    outgoing: MemoryObjectSendStream[SessionMessage]
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    complaint: bytes = field(default=b"", repr=False)
    """The end of what it wrote to stderr so far; meant for a server that does not start."""
    ready: bool = False
    """Set by the user of the link: from now on stderr may hold arguments, and is not kept."""


OpenLink: TypeAlias = "Callable[[ServerConfig], AbstractAsyncContextManager[Link]]"
"""Opens a connection for the time of a block. Raises OSError where there is no server."""
