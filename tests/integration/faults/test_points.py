"""Every fault point with every kind of harm, on real processes: no tool runs undecided, none runs
twice, each decision is there once, and the run ends as it should.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.faults import story
from tests.integration.faults.points import CASES, EXPIRING, TOOLS, Case
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.cluster import Cluster
    from tests.support.counting import Ledger

    Clusters = Callable[..., AbstractAsyncContextManager[Cluster]]


async def _came_to_it(cluster: Cluster, case: Case) -> None:
    async def reached() -> bool:
        return cluster.faults_reached(case.service) > 0

    await eventually(reached, what=f"{case.service} comes to {case.point}")


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_an_approved_call(clusters: Clusters, ledger: Ledger, case: Case) -> None:
    tool = TOOLS[case.effect]
    made = story.spec(tool, free_turn=case.point.endswith("_answer"))
    async with clusters(fault=case.fault) as cluster:
        run_id = await story.started(cluster, made)
        if paused := await story.paused(cluster, run_id):
            assert ledger.count(story.ITEM) == 0
            await story.approved(cluster, run_id)
        assert await story.ended(cluster, run_id) == case.ends
        await _came_to_it(cluster, case)
        execution = await story.executions(cluster, run_id)
        assert execution == case.execution
        await story.assert_ran_at_most_once(cluster, ledger, run_id, tool, execution)
        if paused:
            await story.assert_decided_once(cluster, run_id)
        assert (await story.counts(cluster, run_id))["run.finished"] == 1


@pytest.mark.parametrize("case", EXPIRING, ids=str)
async def test_a_call_that_nobody_decides(clusters: Clusters, ledger: Ledger, case: Case) -> None:
    own = {"approvals": {"HANGO_APPROVAL_TTL": "300ms"}}
    async with clusters(fault=case.fault, own=own) as cluster:
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
        assert (told["approval.requested"], told["approval.expired"], told["run.finished"]) == (
            1,
            1,
            1,
        )
