"""What one cycle costs: start, pause, approve, resume, the tool once, done."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from hango_platform.postgres.transaction import Transaction
from hango_platform.rpc.channel import Channel

from tests.integration.main_job.conftest import tools_listed
from tests.support.scripts import GATED, agent, fire, turn
from tests.support.stack import Client, running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.counting import Ledger
    from tests.support.stack import Stack

log = logging.getLogger(__name__)

STATEMENTS, COMMITS, CALLS = 60, 16, 8
CYCLES = 7
# Asked by a clock, whether a run goes on or not.
BACKGROUND = {"claim_outbox", "outbox_backlog", "runs_by_state", "pending_by_tool", "touch_keys"}
_WRITES = re.compile(r"\b(?:INSERT|DELETE|(?<!FOR )UPDATE)\b")


class Meter:
    """Counts what both services ask their databases and each other, and what clients call.

    A commit is one that writes: of a transaction in which a statement changed a row.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.statements: Counter[str] = Counter()
        self.commits: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        for kind in ("one", "many", "exec"):
            patch.setattr(Transaction, kind, self._counting(getattr(Transaction, kind)))
        for client in (Channel, Client):
            patch.setattr(client, "call", self._calling(client.call))

    def _counting(self, asked: Any) -> Any:
        async def ask(tx: Transaction, query: Any, *args: object) -> Any:
            found = await asked(tx, query, *args)
            self.statements[query.name] += 1
            changed = bool(found) and _WRITES.search(query.sql)
            if changed and not hasattr(tx, "changed_by"):
                tx.changed_by = query.name  # type: ignore[attr-defined]
                tx.after_commit(lambda: self.commits.update([query.name]))
            return found

        return ask

    def _calling(self, called: Any) -> Any:
        async def call(client: Any, method: Any, request: Any, *args: Any, **more: Any) -> Any:
            self.calls[type(request).__name__.removesuffix("Request")] += 1
            return await called(client, method, request, *args, **more)

        return call

    def clear(self) -> None:
        """Start anew."""
        for counter in (self.statements, self.commits, self.calls):
            counter.clear()

    def cost(self) -> tuple[int, int, int]:
        """Statements, commits and calls, without what a clock asks for."""

        def own(counter: Counter[str]) -> int:
            return sum(n for name, n in counter.items() if name not in BACKGROUND)

        return own(self.statements), own(self.commits), self.calls.total()

    def __str__(self) -> str:
        return "\n".join(
            f"{what}: " + ", ".join(f"{name} {n}" for name, n in counter.most_common())
            for what, counter in (
                ("statements", self.statements),
                ("commits, by their first change", self.commits),
                ("calls", self.calls),
            )
        )


async def cycle(stack: Stack, meter: Meter, name: str) -> tuple[tuple[int, int, int], str]:
    """One cycle, nobody watching it; its cost and what it is made of."""
    admin = stack.users["admin"]
    meter.clear()
    run = await admin.start(name)
    await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})

    async def over_and_told() -> bool:
        state = "SELECT 1 FROM runs WHERE id = $1 AND state = 'succeeded'"
        left = "SELECT 1 FROM outbox WHERE published_at IS NULL"
        return bool(await stack.sql("runner", state, run.id)) and not any(
            [await stack.sql(which, left) for which in ("runner", "approvals")]
        )

    await eventually(over_and_told, what="the run is over, and everything was told")
    return meter.cost(), str(meter)


async def test_a_cycle_stays_within_its_budget(
    postgres_server: PostgresServer,
    nats_server: NatsServer,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Figures: one cycle costs at most 60 statements, 16 commits and 8 RPCs, in both services and
    with its client; what polls and spectators ask for is not the cycle's. The middle one of seven
    is judged.
    """
    meter = Meter(monkeypatch)
    async with running_stack(
        postgres_server, nats_server, tool_servers=ledger.tool_servers
    ) as stack:
        await tools_listed(stack)
        spec = agent(turn(fire("c1", "budget")), interrupt_on=GATED)
        await stack.users["admin"].save_agent(spec)
        await cycle(stack, meter, spec["name"])
        cycles = sorted([await cycle(stack, meter, spec["name"]) for _ in range(CYCLES)])
        (statements, commits, calls), made_of = cycles[CYCLES // 2]
        assert ledger.count("budget") == CYCLES + 1
        summary = f"{statements} statements, {commits} commits, {calls} calls\n{made_of}"
        log.info("%s\nall: %s", summary, [cost for cost, _ in cycles])
        assert statements <= STATEMENTS, summary
        assert commits <= COMMITS, summary
        assert calls <= CALLS, summary
