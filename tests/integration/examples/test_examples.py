"""The examples as they stand, driven through the SDK."""

import json
from pathlib import Path
from typing import Any

import yaml
from hango import Hango
from hango.sdk.values import Run

from tests.integration.examples.conftest import EXAMPLES
from tests.support.waiting import eventually


def spec(example: str) -> Any:
    return yaml.safe_load((EXAMPLES / example / "agent.yaml").read_text())


async def started(example: str, admin: Hango, member: Hango) -> Run:
    agent = await admin.agents.save(spec(example))
    assert agent.warnings == ()
    run = await member.runs.start(agent.name, "Go on", wait=30)
    assert (run.state, run.agent) == ("awaiting_approval", agent.name)
    return run


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


async def test_the_bank(admin: Hango, member: Hango, logs: Path) -> None:
    run = await started("bank", admin, member)
    (pay,) = await admin.runs.approvals(run.id)
    assert (pay.tool_name, pay.arguments["amount"]) == ("bank__pay", 250)
    assert entries(logs / "bank") == []
    await admin.runs.decide(run.id, pay.edit({**pay.arguments, "amount": 200}))
    run = await member.runs.finished(run.id)
    assert (run.state, run.output) == ("succeeded", "Done. The ledger shows what was paid.")
    (entry,) = entries(logs / "bank")
    assert (entry["amount"], entry["run_id"], entry["tool_call_id"]) == (200, run.id, "call_2")

    async def reported() -> bool:
        return (await admin.approvals.get(pay.id)).execution.state == "succeeded"

    await eventually(reported)


async def test_the_release_bot(admin: Hango, member: Hango, logs: Path) -> None:
    run = await started("release-bot", admin, member)
    (staged,) = entries(logs / "releases")
    assert (staged["shipped"], staged["where"]) == ("1.2.0", "staging")
    ship, announce = await admin.runs.approvals(run.id, state="pending")
    assert (ship.arguments["where"], announce.tool_name) == ("production", "releases__announce")
    await admin.runs.decide(run.id, ship.approve(), announce.edit({"text": "hango 1.2.0 is out."}))
    run = await member.runs.finished(run.id)
    assert (run.state, run.output) == ("succeeded", "1.2.0 is out.")
    assert [e.get("where") or e["announced"] for e in entries(logs / "releases")] == [
        "staging",
        "production",
        "hango 1.2.0 is out.",
    ]
    assert len({e["key"] for e in entries(logs / "releases")}) == 3


async def test_notes(admin: Hango, member: Hango) -> None:
    run = await started("notes", admin, member)
    memory, skill = await admin.runs.approvals(run.id, state="pending")
    assert memory.arguments["path"] == "/memories/AGENTS.md"
    await admin.runs.decide(run.id, memory.approve(), skill.approve())
    run = await member.runs.finished(run.id)
    assert run.state == "succeeded"
    told = [m async for m in member.runs.messages(run.id)]
    listed = next(m for m in told if m.tool_name == "glob")
    assert set(listed.content.split()) >= {
        "/drafts/minutes.md",
        "/memories/AGENTS.md",
        "/skills/minutes/SKILL.md",
    }
