"""Reads what became of every run, and holds it against what clients were told."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.stack import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.load import Attempt, History
    from tests.chaos.stack import ChaosUp

OVER = ("succeeded", "failed", "cancelled")
_ONCE = "fire"


@dataclass
class Verdict:
    """What the checker found: every fault with an example, and the figures."""

    faults: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, fault: str, found: Iterable[object]) -> None:
        """Count these faults; a fault that was looked for and not found counts 0."""
        listed = list(found)
        self.faults[fault] = self.faults.get(fault, 0) + len(listed)
        if listed:
            self.examples[fault] = str(listed[0])

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not any(self.faults.values())


@dataclass
class Facts:
    """The two databases and the ledger, as they are at the end."""

    runs: dict[str, Any]
    calls: list[Any]
    events: dict[str, list[Any]]
    approvals: dict[str, Any]
    audit: Counter[str]
    ledger: list[dict[str, Any]]
    users: dict[str, str]

    @classmethod
    async def read(cls, up: ChaosUp) -> Facts:
        """Look at everything."""
        a, r = up.dsn("approvals"), up.dsn("runner")
        events: dict[str, list[Any]] = defaultdict(list)
        for event in await rows(r, "SELECT run_id, seq, type, data FROM run_events ORDER BY 1, 2"):
            events[str(event["run_id"])].append(event)
        audit = await rows(
            a,
            "SELECT target_id FROM audit_events"
            " WHERE action = 'approval.decide' AND outcome = 'ok'",
        )
        return cls(
            runs={str(x["id"]): x for x in await rows(r, "SELECT * FROM runs")},
            calls=await rows(r, "SELECT * FROM tool_calls WHERE ruling = 'gated'"),
            events=events,
            approvals={
                str(x["id"]): x
                for x in await rows(
                    a,
                    "SELECT p.*, s.state AS suspension, s.closed_at FROM pending_approvals p"
                    " JOIN suspensions s ON s.id = p.suspension_id",
                )
            },
            audit=Counter(str(x["target_id"]) for x in audit),
            ledger=up.ledger,
            users={str(x["id"]): x["name"] for x in await rows(a, "SELECT id, name FROM users")},
        )


def check(facts: Facts, history: History) -> Verdict:
    """Every promise, for every run."""
    verdict = Verdict()
    verdict.note("stuck runs", [i for i in history.runs if facts.runs[i]["state"] not in OVER])
    verdict.note("double executions", _doubles(facts))
    verdict.note("undecided executions", _undecided(facts))
    verdict.note("lost verdicts", _lost(facts, history.attempts))
    verdict.note("both outcomes", _both(facts, history.attempts))
    verdict.note("false refusals", _false_refusals(facts, history.attempts))
    verdict.note("broken stories", _broken_stories(facts))
    verdict.note("decisions without one audit row", _unaudited(facts))
    verdict.note("executions that A and R tell differently", _disagreements(facts))
    verdict.note("unexpected answers", history.surprises.elements())
    states = Counter(facts.runs[i]["state"] for i in history.runs)
    verdict.counts = {
        "runs": len(history.runs),
        **{f"runs {state}": n for state, n in sorted(states.items())},
        "decides acknowledged": sum(a.status == 200 for a in history.attempts),
        "decides refused (409)": sum(a.status == 409 for a in history.attempts),
        "decisions that stand beside a cancelled run's withdrawal": sum(
            _cut_off(facts, run_id, e)
            and facts.approvals[json.loads(e["data"])["approval_id"]]["state"] == "decided"
            for run_id, events in facts.events.items()
            for e in events
        ),
        "tool executions": len(facts.ledger),
        "calls of unknown outcome": sum(c["exec_state"] == "unknown" for c in facts.calls),
        "requests repeated by clients": history.retries,
    }
    return verdict


def _doubles(facts: Facts) -> Iterable[object]:
    ran = Counter(
        (e["run_id"], e["tool_call_id"], e["item"]) for e in facts.ledger if e["tool"] == _ONCE
    )
    yield from (what for what, n in ran.items() if n > 1)
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for e in facts.ledger:
        keys[e["run_id"], e["tool_call_id"]].add(e["key"])
    yield from (what for what, used in keys.items() if len(used) > 1)


def _undecided(facts: Facts) -> Iterable[object]:
    """What ran though nobody let it, or with other arguments than those that were let."""
    decided = {
        (str(a["run_id"]), a["tool_call_id"]): a
        for a in facts.approvals.values()
        if a["decision"] in ("approve", "edit")
    }
    for e in facts.ledger:
        if e["tool"] == "look":
            continue
        approval = decided.get((e["run_id"], e["tool_call_id"]))
        was_edited = e["item"] == "edited" and e["amount"] == 7
        if approval is None or (approval["decision"] == "edit") != was_edited:
            yield e


def _lost(facts: Facts, attempts: Iterable[Attempt]) -> Iterable[object]:
    """Acknowledged, and not what A knows, or not what R acted on."""
    copied = {str(c["approval_id"]): c["decision"] for c in facts.calls}
    for attempt in (a for a in attempts if a.status == 200):
        for told in attempt.approvals:
            known = facts.approvals.get(told["id"])
            wanted = attempt.decisions[told["tool_call_id"]]
            over = facts.runs[attempt.run_id]["state"] == "cancelled"
            acted_on = over or copied.get(told["id"]) == wanted
            if known is None or known["decision"] != wanted or not acted_on:
                yield attempt.run_id


def _both(facts: Facts, attempts: Iterable[Attempt]) -> Iterable[object]:
    """Two outcomes of one approval, among what clients, A and the story say."""
    acknowledged: dict[str, set[str]] = defaultdict(set)
    for attempt in (a for a in attempts if a.status == 200):
        for told in attempt.approvals:
            acknowledged[told["id"]].add(attempt.decider)
    yield from (approval for approval, by in acknowledged.items() if len(by) > 1)
    for run_id, events in facts.events.items():
        outcomes: Counter[str] = Counter()
        for event in events:
            if event["type"] in ("approval.decided", "approval.expired", "approval.withdrawn"):
                data = json.loads(event["data"])
                outcomes[data["approval_id"]] += 1
                known = facts.approvals[data["approval_id"]]["state"]
                if event["type"] != f"approval.{known}" and not _cut_off(facts, run_id, event):
                    yield run_id, event["type"], known
        yield from (run_id for n in outcomes.values() if n > 1)


def _cut_off(facts: Facts, run_id: str, event: Any) -> bool:
    """T5 while A did not answer: the run is cancelled, and its story says that it withdrew, though
    a decision that A took meanwhile stands there. Nothing runs of it.
    """
    cancelled: bool = facts.runs[run_id]["state"] == "cancelled"
    return cancelled and event["type"] == "approval.withdrawn"


def _false_refusals(facts: Facts, attempts: Iterable[Attempt]) -> Iterable[object]:
    """Refused, though it is this one that was taken."""
    winners: dict[str, set[str]] = defaultdict(set)
    for a in facts.approvals.values():
        if a["decided_by"] is not None:
            key = f"{a['run_id']} {a['tool_call_id']}"
            winners[key].add(facts.users[str(a["decided_by"])])
    for attempt in (a for a in attempts if a.status == 409):
        for call_id in attempt.decisions:
            if winners.get(f"{attempt.run_id} {call_id}") == {attempt.decider}:
                yield attempt.run_id, attempt.reason


def _broken_stories(facts: Facts) -> Iterable[object]:
    for run_id, events in facts.events.items():
        kinds = Counter(e["type"] for e in events)
        whole = [e["seq"] for e in events] == list(range(1, len(events) + 1))
        over = facts.runs[run_id]["state"] in OVER
        if not whole or kinds["run.finished"] != over:
            yield run_id
        if kinds["approval.decided"] + kinds["approval.expired"] > kinds["approval.requested"]:
            yield run_id


def _unaudited(facts: Facts) -> Iterable[object]:
    for approval_id, approval in facts.approvals.items():
        if facts.audit[approval_id] != (approval["state"] == "decided"):
            yield approval_id


def _disagreements(facts: Facts) -> Iterable[object]:
    for c in facts.calls:
        if c["approval_id"] is None:
            continue
        theirs = facts.approvals[str(c["approval_id"])]["execution_state"]
        if theirs != c["exec_state"]:
            yield str(c["run_id"]), c["exec_state"], theirs
