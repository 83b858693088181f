"""Waiting for a condition with a deadline, where there is no event to await."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_POLL = 0.01


async def eventually(
    check: Callable[[], Awaitable[T | None]], *, timeout: float = 10.0, what: str = "condition"
) -> T:
    """The first truthy result of `check()`. Raises AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if result := await check():
            return result
        if time.monotonic() > deadline:
            message = f"not within {timeout} s: {what}"
            raise AssertionError(message)
        await asyncio.sleep(_POLL)


def wait_until(
    check: Callable[[], T | None], *, timeout: float = 10.0, what: str = "condition"
) -> T:
    """`eventually` for tests without an event loop, or whose condition needs none."""
    deadline = time.monotonic() + timeout
    while True:
        if result := check():
            return result
        if time.monotonic() > deadline:
            message = f"not within {timeout} s: {what}"
            raise AssertionError(message)
        time.sleep(_POLL)
