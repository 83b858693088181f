"""Reading server-sent events in tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.support.fake_owners import Edge

SOON = 5.0


@dataclass
class Stream:
    """An open stream: its events one by one."""

    response: httpx.Response
    lines: AsyncIterator[str]

    async def next(self, timeout: float = SOON) -> dict[str, str] | None:
        """The fields of the next event, None at the end."""
        async with asyncio.timeout(timeout):
            fields: dict[str, str] = {}
            async for line in self.lines:
                if line.startswith(":"):
                    continue
                if not line:
                    if fields:
                        return fields
                    continue
                name, _, value = line.partition(": ")
                fields[name] = f"{fields[name]}\n{value}" if name in fields else value
            return None

    async def comment(self) -> str:
        """The next comment."""
        async with asyncio.timeout(SOON):
            async for line in self.lines:
                if line.startswith(":"):
                    return line
        msg = "the stream has ended"
        raise AssertionError(msg)

    async def numbers(self, count: int) -> list[int]:
        """The ids of the next events."""
        found = [await self.next() for _ in range(count)]
        return [int(f["id"]) for f in found if f is not None]


@asynccontextmanager
async def streaming(
    edge: Edge, path: str, user: str = "admin", **headers: str
) -> AsyncIterator[Stream]:
    headers = edge.as_(user, **headers)
    async with edge.http.stream("GET", path, headers=headers, timeout=30) as response:
        assert response.status_code == 200
        stream = Stream(response, response.aiter_lines())
        assert await stream.next() == {"retry": "2000"}
        yield stream


async def metric(edge: Edge, series: str) -> float:
    """The gateway's value of this series; 0 where there is none."""
    text = (await edge.http.get("/metrics")).text
    values = (line.rpartition(" ") for line in text.splitlines())
    return next((float(value) for name, _, value in values if name == series), 0.0)
