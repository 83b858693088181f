"""People and agents: runs are started, decided, fought over, cancelled and forgotten, over REST."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.scripts import call, turn

if TYPE_CHECKING:
    import random

FIRE, PUT, LOOK = "count__fire", "count__put", "count__look"
PATIENCE = 90.0
_AWAY = (502, 503, 504)
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.5)


def _agent(name: str, *turns: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "model": {"provider": "scripted", "turns": [*turns, {"text": "done"}]},
        "tools": ["*"],
        "interrupt_on": {FIRE: True, PUT: True},
    }


AGENTS = [
    _agent("once", turn(call("c1", FIRE, item="once"))),
    _agent("keyed", turn(call("c1", PUT, item="keyed"))),
    _agent(
        "batch",
        turn(
            call("free", LOOK, item="free"),
            call("c1", FIRE, item="batch"),
            call("c2", PUT, item="batch"),
        ),
    ),
    _agent(
        "two-gates",
        turn(call("c1", FIRE, item="gate 1"), delay_ms=30),
        turn(call("c2", FIRE, item="gate 2"), delay_ms=30),
    ),
]
_GATES = {
    "once": [["c1"]],
    "keyed": [["c1"]],
    "batch": [["c1", "c2"]],
    "two-gates": [["c1"], ["c2"]],
}


@dataclass
class Attempt:
    """One person's decide, and how it was answered in the end."""

    run_id: str
    decider: str
    decisions: dict[str, str]
    status: int = 0
    reason: str = ""
    approvals: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class History:
    """What clients saw."""

    runs: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    surprises: Counter[str] = field(default_factory=Counter)
    retries: int = 0


class Person:
    """A client that repeats what was not answered, with the same key, until it is."""

    def __init__(self, base_url: str, key: str, history: History) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers={"authorization": f"Bearer {key}"},
            timeout=20,
            limits=httpx.Limits(max_connections=200),
        )
        self._history = history

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: object = None, **query: str
    ) -> httpx.Response | None:
        """The answer; None where patience ran out."""
        headers = {} if method == "GET" else {"idempotency-key": uuid.uuid4().hex}
        until, n = time.monotonic() + PATIENCE, 0
        while time.monotonic() < until:
            try:
                answer = await self._http.request(
                    method, path, json=body, params=query, headers=headers
                )
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in _AWAY and not _in_flight(answer):
                return answer
            self._history.retries += 1
            await asyncio.sleep(_PAUSES[min(n, len(_PAUSES) - 1)])
            n += 1
        self._history.surprises[f"{method} {path.split('/')[-1]}: no answer"] += 1
        return None


def _in_flight(answer: httpx.Response) -> bool:
    return answer.status_code == 409 and answer.json()["reason"] == "IDEMPOTENCY_IN_FLIGHT"


def _waits(run: dict[str, Any]) -> bool:
    return bool(run["state"] == "awaiting_approval" and run["pending_approvals"])


class Load:
    """So many people at once. Where they are `calm`, every run is decided, by one."""

    def __init__(
        self, ready: dict[str, Any], people: int, dice: random.Random, *, calm: bool = False
    ) -> None:
        self.history = History()
        keys = ready["credentials"]
        self._persons = {
            name: Person(ready["http"], keys[name], self.history)
            for name in ("owner", "admin", "member")
        }
        self._people = people
        self._dice = dice
        self._calm = calm

    async def prepare(self) -> None:
        """Save the agents."""
        for spec in AGENTS:
            answer = await self._persons["admin"].ask("PUT", f"/v1/agents/{spec['name']}", spec)
            assert answer is not None
            assert answer.is_success, answer.text

    async def run(self, until: float) -> None:
        """Do what people do, until then (monotonic)."""

        async def one() -> None:
            while time.monotonic() < until:
                await self._live()

        await asyncio.gather(*(one() for _ in range(self._people)))

    async def verify(self) -> Any:
        """What the service itself finds of its audit trail."""
        answer = await self._persons["owner"].ask("GET", "/v1/audit/verify")
        assert answer is not None
        return answer.json()

    async def close(self) -> None:
        """Hang up."""
        for person in self._persons.values():
            await person.close()

    async def _live(self) -> None:
        """One run, from its start to its last decision."""
        agent = self._dice.choice(AGENTS)["name"]
        body = {"agent": agent, "input": "go"}
        answer = await self._persons["member"].ask("POST", "/v1/runs", body, wait="10s")
        if answer is None or not self._expected("start", answer, 202):
            return
        run = answer.json()
        self.history.runs.append(run["id"])
        if self._happens(0.03):
            return  # nobody cares for this one: it expires
        for n, calls in enumerate(_GATES[agent]):
            told = not n and _waits(run)
            if not told and not await self._paused(run["id"]):
                return
            if self._happens(0.04):
                await self._cancel(run["id"])
                return
            await self._decide(run["id"], calls)

    def _happens(self, share: float) -> bool:
        return not self._calm and self._dice.random() < share

    async def _paused(self, run_id: str) -> bool:
        """Whether it waits for a decision now; False once it is over."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = await self._persons["member"].ask("GET", f"/v1/runs/{run_id}")
            if answer is None or not self._expected("get", answer, 200):
                return False
            run = answer.json()
            if _waits(run):
                return True
            if run["state"] in ("succeeded", "failed", "cancelled"):
                return False
            await asyncio.sleep(0.05)
        return False

    async def _decide(self, run_id: str, calls: list[str]) -> None:
        """One person decides, or two at once, or one while another cancels."""
        both = ["admin", "owner"]
        deciders = both if self._happens(0.2) else [self._dice.choice(both)]
        acts = [self._attempt(run_id, calls, decider) for decider in deciders]
        if self._happens(0.03):
            acts.append(self._cancel(run_id))
        await asyncio.gather(*acts)

    async def _attempt(self, run_id: str, calls: list[str], decider: str) -> None:
        decisions = [self._decision(c) for c in calls]
        attempt = Attempt(run_id, decider, {d["tool_call_id"]: d["decision"] for d in decisions})
        begun = time.monotonic()
        answer = await self._persons[decider].ask(
            "POST", f"/v1/runs/{run_id}/approvals", {"decisions": decisions}
        )
        attempt.seconds = time.monotonic() - begun
        if answer is None or not self._expected("decide", answer, 200, 409):
            return
        attempt.status = answer.status_code
        body = answer.json()
        attempt.reason = body.get("reason", "")
        attempt.approvals = body.get("approvals", [])
        self.history.attempts.append(attempt)

    def _decision(self, call_id: str) -> dict[str, Any]:
        kind = self._dice.choices(["approve", "reject", "edit", "respond"], [75, 10, 10, 5])[0]
        made: dict[str, Any] = {"tool_call_id": call_id, "decision": kind}
        if kind == "edit":
            made["args"] = {"item": "edited", "amount": 7}
        if kind == "respond":
            made["message"] = "no need"
        return made

    async def _cancel(self, run_id: str) -> None:
        answer = await self._persons["member"].ask("POST", f"/v1/runs/{run_id}/cancel")
        if answer is not None:
            self._expected("cancel", answer, 200, 409)

    def _expected(self, what: str, answer: httpx.Response, *statuses: int) -> bool:
        if answer.status_code in statuses:
            return True
        self.history.surprises[f"{what}: {answer.status_code} {answer.text[:200]}"] += 1
        return False
