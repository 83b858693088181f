"""Every fault point with every kind of harm, on real processes: no tool runs undecided, none runs
twice, each decision is there once, and the run ends as it should.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.faults import story
from tests.integration.faults.ahead import Ahead
from tests.integration.faults.conftest import mortal_nats
from tests.integration.faults.points import CASES, EXPIRING, TOOLS, Case
from tests.support.cluster import running_cluster
from tests.support.counting import QUICK, Ledger
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.backend import PostgresServer
    from tests.support.cluster import Cluster
    from tests.support.zygote import Zygote

APPROVED, UNDECIDED = "test_an_approved_call", "test_a_call_that_nobody_decides"


@pytest.fixture(scope="session")
async def ahead(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, zygote: Zygote
) -> AsyncIterator[Ahead[tuple[str, Case]]]:
    """The work of all cases that were asked for."""

    async def work(named: tuple[str, Case]) -> None:
        name, case = named
        own = {"approvals": {"HANGO_APPROVAL_TTL": "300ms"}} if name == UNDECIDED else {}
        with tempfile.TemporaryDirectory(prefix="hango-test-") as path, mortal_nats() as nats:
            folder = Path(path)
            ledger = Ledger(folder, QUICK)
            async with running_cluster(
                postgres_server,
                nats.url,
                zygote,
                folder,
                tool_servers=ledger.tool_servers,
                fault=case.fault,
                own=own,
            ) as cluster:
                await SCENARIOS[name](cluster, ledger, case)

    items = [i for i in request.session.items if isinstance(i, pytest.Function)]
    wanted: list[tuple[str, Any]] = [
        (i.originalname, i.callspec.params["case"]) for i in items if i.originalname in SCENARIOS
    ]
    made = Ahead(wanted, work)
    yield made
    await made.stop()


async def _came_to_it(cluster: Cluster, case: Case) -> None:
    async def reached() -> bool:
        return cluster.faults_reached(case.service) > 0

    await eventually(reached, what=f"{case.service} comes to {case.point}")


async def an_approved_call(cluster: Cluster, ledger: Ledger, case: Case) -> None:
    """A run with one gated call, which a person approves."""
    tool = TOOLS[case.effect]
    run_id = await story.started(
        cluster, story.spec(tool, free_turn=case.point.endswith("_answer"))
    )
    if paused := await story.paused(cluster, run_id):
        assert ledger.count(story.ITEM) == 0
        await story.approved(cluster, run_id)
    assert await story.ended(cluster, run_id) == case.ends
    await _came_to_it(cluster, case)
    execution = await story.executions(cluster, run_id)
    # A service that hangs is killed; on a busy machine the tool may be under way by then.
    assert execution == case.execution or (
        (case.kind, case.effect, execution) == ("hang", "once", {"unknown"})
    )
    await story.assert_ran_at_most_once(cluster, ledger, run_id, tool, execution)
    if paused:
        await story.assert_decided_once(cluster, run_id)
    assert (await story.counts(cluster, run_id))["run.finished"] == 1


async def a_call_that_nobody_decides(cluster: Cluster, ledger: Ledger, case: Case) -> None:
    """A run whose gated call expires."""
    run_id = await story.started(cluster, story.spec(TOOLS["once"]))
    assert await story.ended(cluster, run_id) == "failed"
    await _came_to_it(cluster, case)
    assert await story.executions(cluster, run_id) == {"skipped"}
    assert ledger.count(story.ITEM) == 0
    (approval,) = await cluster.sql(
        "approvals", "SELECT state, decision FROM pending_approvals WHERE run_id = $1", run_id
    )
    assert (approval["state"], approval["decision"]) == ("expired", None)
    told = await story.counts(cluster, run_id)
    kinds = ("approval.requested", "approval.expired", "run.finished")
    assert [told[kind] for kind in kinds] == [1, 1, 1]


SCENARIOS: dict[str, Callable[[Cluster, Ledger, Case], Awaitable[None]]] = {
    APPROVED: an_approved_call,
    UNDECIDED: a_call_that_nobody_decides,
}


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_an_approved_call(ahead: Ahead[tuple[str, Case]], case: Case) -> None:
    await ahead.of((APPROVED, case))


@pytest.mark.parametrize("case", EXPIRING, ids=str)
async def test_a_call_that_nobody_decides(ahead: Ahead[tuple[str, Case]], case: Case) -> None:
    await ahead.of((UNDECIDED, case))
