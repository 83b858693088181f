"""Credentials are asked for once a second, and refusals every time."""

from __future__ import annotations

import asyncio

import pytest
from hango_platform import clock
from hango_platform.errors import Unauthenticated
from hango_platform.rpc.caller import Principal, Role
from hango_platform.rpc.credentials import CachedCredentials

ANN = Principal("t", "demo", "u", Role.ADMIN)


class Resolver:
    """Counts, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.known = True

    async def __call__(self, credential: str) -> Principal:
        self.asked += 1
        await self.go.wait()
        if not self.known:
            raise Unauthenticated
        return ANN


async def test_many_at_once_are_one_question() -> None:
    resolve = Resolver()
    credentials = CachedCredentials(resolve)
    callers = [asyncio.create_task(credentials("hk_x")) for _ in range(50)]
    await asyncio.sleep(0)
    callers[0].cancel()  # the first to ask goes away; the others get their answer
    resolve.go.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [ANN] * 49
    assert resolve.asked == 1


async def test_an_answer_is_good_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    resolve = Resolver()
    resolve.go.set()
    credentials = CachedCredentials(resolve)
    await credentials("hk_x")
    now += 0.9
    await credentials("hk_x")
    assert resolve.asked == 1
    await credentials("hk_y")
    assert resolve.asked == 2
    now += 0.2
    resolve.known = False
    with pytest.raises(Unauthenticated):
        await credentials("hk_x")


async def test_a_refusal_is_not_remembered() -> None:
    resolve = Resolver()
    resolve.go.set()
    resolve.known = False
    credentials = CachedCredentials(resolve)
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            await credentials("hk_x")
    assert resolve.asked == 3
    resolve.known = True
    assert await credentials("hk_x") == ANN


async def test_an_error_that_nobody_waits_for_is_quiet() -> None:
    resolve = Resolver()
    resolve.known = False
    credentials = CachedCredentials(resolve)
    caller = asyncio.create_task(credentials("hk_x"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    resolve.go.set()
    with pytest.raises(Unauthenticated):
        await credentials("hk_x")
