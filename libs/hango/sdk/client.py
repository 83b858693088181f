"""The client of the API: agents, runs, their events, and what people decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from hango.sdk import values
from hango.sdk.values import Agent, Approval, Decided, Event, Message, Run, ToolInfo
from hango.sdk.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    import httpx

    from hango.sdk.values import Decision

LONGEST_WAIT = 60.0
"""Seconds that the API waits at most for a run to pause or end."""


class Hango:
    """The API at `url`, as the user that `api_key` (or an OIDC token) belongs to.

    Calls raise the exceptions of `hango.sdk.errors`. `timeout` is for how many seconds one request
    may take; `patience` for how many seconds a call is repeated that could not be answered. That
    is safe: the repetitions of a call share one idempotency key.

        async with Hango("http://127.0.0.1:8080", api_key) as hango:
            run = await hango.runs.start("release-bot", "Ship 1.2", wait=30)
            if run.state == "awaiting_approval":
                pending = await hango.runs.approvals(run.id, state="pending")
                await hango.runs.decide(run.id, *[each.approve() for each in pending])
            async for event in hango.runs.events(run.id):
                print(event.type)
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        patience: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._wire = Wire(url, api_key, timeout=timeout, patience=patience, transport=transport)
        self.agents = Agents(self._wire)
        self.runs = Runs(self._wire)
        self.approvals = Approvals(self._wire)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def tools(self) -> list[ToolInfo]:
        """The tools that an agent may name."""
        answer = await self._wire.call("GET", "/v1/tools")
        return [values.read(ToolInfo, each) for each in answer["items"]]


class Agents:
    """Agents and their versions."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def save(self, spec: Mapping[str, Any]) -> Agent:
        """Save a spec under its name; a new version, unless it is the same spec again."""
        path = f"/v1/agents/{spec['name']}"
        return values.read(Agent, await self._wire.call("PUT", path, dict(spec)))

    async def get(self, name: str, version: int | None = None) -> Agent:
        """The newest version, or this one."""
        query = {"version": version}
        return values.read(Agent, await self._wire.call("GET", f"/v1/agents/{name}", query=query))

    async def list(self) -> AsyncIterator[Agent]:
        """All agents in use, newest first."""
        async for each in self._wire.pages("/v1/agents"):
            yield values.read(Agent, each)

    async def delete(self, name: str) -> None:
        """Take an agent out of use; its paused runs keep their version."""
        await self._wire.call("DELETE", f"/v1/agents/{name}")


class Runs:
    """Runs: what they do, what they wait for, what is decided."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def start(
        self,
        agent: str,
        input: str | list[Any],
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Run:
        """Start a run; with `wait` (seconds, at most 60), as it stands when it pauses or ends."""
        body: dict[str, Any] = {"agent": agent, "input": input}
        if thread_id is not None:
            body["thread_id"] = thread_id
        if metadata is not None:
            body["metadata"] = dict(metadata)
        query = {"wait": f"{int(min(wait, LONGEST_WAIT) * 1000)}ms"} if wait else {}
        answer = await self._wire.call("POST", "/v1/runs", body, query=query, wait=wait)
        return values.read(Run, answer)

    async def get(self, run_id: str) -> Run:
        """The run as it is now."""
        return values.read(Run, await self._wire.call("GET", f"/v1/runs/{run_id}"))

    async def list(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
    ) -> AsyncIterator[Run]:
        """The runs that you may see, newest first."""
        query = {"state": state, "agent": agent, "thread_id": thread_id}
        async for each in self._wire.pages("/v1/runs", query):
            yield values.read(Run, each)

    async def cancel(self, run_id: str) -> Run:
        """End a run; tools that have started are not stopped. Raises RunFinished."""
        return values.read(Run, await self._wire.call("POST", f"/v1/runs/{run_id}/cancel", {}))

    async def messages(self, run_id: str) -> AsyncIterator[Message]:
        """The transcript, oldest first."""
        async for each in self._wire.pages(f"/v1/runs/{run_id}/messages"):
            yield values.read(Message, each)

    async def events(self, run_id: str, *, after: int | None = None) -> AsyncIterator[Event]:
        """What has happened since event `after` (None: from the start), and goes on happening,
        until the run is over. Lost connections are made again where they broke off.
        """
        async for event in self._wire.events(f"/v1/runs/{run_id}/events", after):
            yield event

    async def approvals(self, run_id: str, *, state: str | None = None) -> Sequence[Approval]:
        """The run's approvals, oldest first; `state` is pending, decided, expired, withdrawn."""
        found = self._wire.pages(f"/v1/runs/{run_id}/approvals", {"state": state})
        return [values.read(Approval, each) async for each in found]

    async def decide(self, run_id: str, *decisions: Decision) -> Decided:
        """Decide on every pending call of the run, all or nothing.

        Raises ApprovalsIncomplete, ApprovalsClosed, ArgumentsChanged, DecisionNotAllowed,
        EditInvalid, EditOutOfScope, AnswerInvalid, NotAnApprover, SecondPartyRequired.
        """
        body = {"decisions": [each.body() for each in decisions]}
        answer = await self._wire.call("POST", f"/v1/runs/{run_id}/approvals", body)
        return values.read(Decided, answer)

    async def finished(self, run_id: str) -> Run:
        """The run once it is over, however long people take."""
        async for _ in self.events(run_id):
            pass
        return await self.get(run_id)


class Approvals:
    """The tenant's queue."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(
        self,
        *,
        state: str | None = "pending",
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
    ) -> AsyncIterator[Approval]:
        """Approvals that you may see, oldest first."""
        query = {"state": state, "tool": tool, "agent": agent, "run_id": run_id}
        async for each in self._wire.pages("/v1/approvals", query):
            yield values.read(Approval, each)

    async def get(self, approval_id: str) -> Approval:
        """One approval."""
        return values.read(Approval, await self._wire.call("GET", f"/v1/approvals/{approval_id}"))
