"""Both services and the gateway, once a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.stack import running_stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Client, Stack

GATED = {
    "name": "gated",
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "tool_calls": [
                    {"id": "c1", "name": "write_file", "arguments": {"path": "/x", "content": "y"}}
                ]
            },
            {"text": "done"},
        ],
    },
    "interrupt_on": {"write_file": True},
}


@dataclass
class Site:
    """The services, and a client of the gateway."""

    stack: Stack
    http: httpx.AsyncClient

    async def ask(self, by: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """Ask the gateway as a user of the stack."""
        headers = {"authorization": f"Bearer {self.stack.users[by].key}"}
        return await self.http.request(method, path, json=body, headers=headers)

    def user(self, name: str) -> Client:
        """A user over gRPC."""
        return self.stack.users[name]


@pytest.fixture(scope="module")
async def site(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[Site]:
    async with running_stack(postgres_server, nats_server) as stack:
        url = await stack.start_gateway()
        for owner in ("owner", "b-owner"):
            await stack.users[owner].save_agent(GATED)
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            yield Site(stack, http)
