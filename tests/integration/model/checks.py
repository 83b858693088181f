"""What must hold between any two steps, and when nothing moves any more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hango_approvals.domain.suspension import TRANSITIONS as CLOSINGS
from hango_approvals.domain.suspension import State
from hango_platform import ids
from hango_runner.domain.run import TRANSITIONS, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.integration.model.world import World

RUNS = """SELECT id, state, gen, suspension_id, suspension_opened_at, lease_epoch, next_event_seq
            FROM runs ORDER BY id"""
CALLS = """SELECT run_id, turn, call_index, tool_call_id, ruling, exec_state, decision, approval_id,
                  exec_epoch
             FROM tool_calls ORDER BY run_id, turn, call_index"""
RESULTS = "SELECT run_id, tool_call_id FROM messages WHERE role = 'tool' ORDER BY run_id, seq"
EVENTS = """SELECT run_id, seq, type, data ->> 'suspension_id' AS suspension_id
              FROM run_events ORDER BY run_id, seq"""
SUSPENSIONS = "SELECT id, run_id, gen, state, batch_sha256 IS NOT NULL AS opened FROM suspensions"
APPROVALS = """SELECT id, suspension_id, state, decision, decision_args_sha256, execution_state
                 FROM pending_approvals"""
OVER = {state.value for state in RunState if state.over}
RAN = ("succeeded", "unknown")


@dataclass(frozen=True)
class Seen:
    """All rows at one moment."""

    runs: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    results: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    suspensions: Mapping[Any, Mapping[str, Any]]
    approvals: Sequence[Mapping[str, Any]]


@dataclass
class Watch:
    """Looks at a world again and again, and remembers what may not change."""

    world: World
    _states: dict[Any, str] = field(default_factory=dict)
    _epochs: dict[Any, int] = field(default_factory=dict)
    _verdicts: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    async def look(self) -> Seen:
        """All rows, checked. Raises AssertionError."""
        seen = await read(self.world)
        self._runs(seen)
        self._verdicts_stand(seen)
        _results_in_order(seen)
        _stories(seen)
        return seen

    async def at_rest(self) -> None:
        """The last look: nothing is left undone, and every call is accounted for."""
        seen = await self.look()
        assert {r["state"] for r in seen.runs} <= OVER, "a run is stuck"
        assert "pending" not in {s["state"] for s in seen.suspensions.values()}
        executions = {a["id"]: a["execution_state"] for a in seen.approvals}
        for c in seen.calls:
            place = f"{c['run_id']} {c['turn']}.{c['call_index']}"
            assert c["exec_state"] not in ("none", "started"), f"{place} is left {c['exec_state']}"
            effects = self._effects(c)
            assert not effects or c["exec_state"] in RAN, f"{place} has run, and says otherwise"
            assert c["exec_state"] != "succeeded" or effects == 1, f"{place} has not run"
            if c["approval_id"] in executions:
                reported = executions[c["approval_id"]]
                assert reported == c["exec_state"], f"{place} is {reported} in A"
        named = {c["approval_id"] for c in seen.calls}
        unnamed = {a["id"] for a in seen.approvals if a["state"] == "decided"} - named
        assert not unnamed, "a decided approval is neither executed nor skipped"

    def _effects(self, call: Mapping[str, Any]) -> int:
        key = ("", call["turn"], call["call_index"])
        return sum(
            n
            for (run_id, k), n in self.world.history.effects.items()
            if run_id == str(call["run_id"]) and k == key
        )

    def _runs(self, seen: Seen) -> None:
        for run in seen.runs:
            before = self._states.get(run["id"], "queued")
            assert run["state"] in reach(before), f"a run went from {before} to {run['state']}"
            assert run["lease_epoch"] >= self._epochs.get(run["id"], 0)
            if run["state"] == "awaiting_approval":
                expected = ids.suspension_id(str(run["id"]), run["gen"])
                assert str(run["suspension_id"]) == expected
                if run["suspension_opened_at"] is not None:
                    there = seen.suspensions.get(run["suspension_id"])
                    assert there is not None, "a run is shown waiting, and A has nothing"
                    assert there["opened"], "a run is shown waiting for a tombstone"
            self._states[run["id"]] = run["state"]
            self._epochs[run["id"]] = run["lease_epoch"]

    def _verdicts_stand(self, seen: Seen) -> None:
        for s in seen.suspensions.values():
            approvals = sorted(
                (a["id"], a["state"], a["decision"], a["decision_args_sha256"])
                for a in seen.approvals
                if a["suspension_id"] == s["id"]
            )
            assert {a[1] for a in approvals} <= {s["state"]}, "an approval is not as its suspension"
            if not CLOSINGS[State(s["state"])]:
                verdict = (s["state"], *approvals)
                assert self._verdicts.setdefault(s["id"], verdict) == verdict, "a second verdict"
            decided = self.world.history.decided[str(s["id"])]
            assert decided == (s["state"] == "decided"), f"decided {decided} times"


async def read(world: World) -> Seen:
    """All rows of both databases."""

    async def of_r() -> list[Any]:
        return [await world.r_admin.fetch(q) for q in (RUNS, CALLS, RESULTS, EVENTS)]

    async def of_a() -> list[Any]:
        return [await world.a_admin.fetch(q) for q in (SUSPENSIONS, APPROVALS)]

    (runs, calls, results, events), (suspensions, approvals) = await asyncio.gather(of_r(), of_a())
    return Seen(runs, calls, results, events, {s["id"]: s for s in suspensions}, approvals)


def reach(state: str) -> set[str]:
    """Where a run may be some steps after this state."""
    found = {state}
    while more := {e.value for s in found for e in TRANSITIONS[RunState(s)]} - found:
        found |= more
    return found


def _results_in_order(seen: Seen) -> None:
    for run in seen.runs:
        asked = [c["tool_call_id"] for c in seen.calls if c["run_id"] == run["id"]]
        given = [m["tool_call_id"] for m in seen.results if m["run_id"] == run["id"]]
        assert given == asked[: len(given)], f"results {given} for calls {asked}"


def _stories(seen: Seen) -> None:
    for run in seen.runs:
        story = [e for e in seen.events if e["run_id"] == run["id"]]
        assert [e["seq"] for e in story] == list(range(1, len(story) + 1)), "a story has gaps"
        assert run["next_event_seq"] == len(story) + 1
        kinds = [e["type"] for e in story]
        assert kinds.count("run.finished") == (run["state"] in OVER)
        assert "run.finished" not in kinds[:-1], "a story goes on after its end"
        asked: set[str] = set()
        for e in story:
            asked |= {e["suspension_id"]} if e["type"] == "run.suspended" else set()
            if e["type"] in ("approval.decided", "approval.expired", "run.resumed"):
                assert e["suspension_id"] in asked, f"{e['type']} before it was asked for"
        for kind in ("run.suspended", "run.resumed"):
            told = [e["suspension_id"] for e in story if e["type"] == kind]
            assert len(told) == len(set(told)), f"{kind} twice for one suspension"
