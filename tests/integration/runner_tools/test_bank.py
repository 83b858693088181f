"""The example bank over its pipes: effects, keys, death in mid-call."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from hango_policy.rules import Gated, NotGated, effective, judge, parse_interrupt_on
from hango_runner.agent.tools import ToolNotCalled, ToolOutcomeUnknown
from hango_runner.tools.server_file import ServerConfig

from tests.support.tool_servers import BANK, Running, bank_config, entries
from tests.support.waiting import eventually

Start = Callable[[ServerConfig], Awaitable[Running]]


async def test_its_tools_are_listed(start: Start, ledger: Path) -> None:
    bank = await start(bank_config(ledger))
    await bank.connected()
    assert set(bank.server.tools) == {"bank__pay", "bank__transfer", "bank__balance"}
    schema = bank.server.tools["bank__pay"].schema
    assert schema is not None
    assert schema.violations({"account": "a", "amount": 1}) == []
    assert schema.violations({"account": "a"})


async def test_a_call_carries_its_identity(start: Start, ledger: Path) -> None:
    bank = await start(bank_config(ledger))
    result = await bank.call("pay", account="ops", amount=250, reference="17")
    assert result.text == "Paid 250 from ops."
    assert not result.is_error
    assert entries(ledger) == [
        {
            "kind": "pay",
            "account": "ops",
            "amount": 250,
            "reference": "17",
            "idempotency_key": "key-1",
            "run_id": "run-1",
            "tool_call_id": "call-1",
        }
    ]
    assert (await bank.call("balance", account="ops")).text == "ops has 750."


async def test_digits_stay_exact(start: Start, ledger: Path) -> None:
    bank = await start(bank_config(ledger))
    for amount in (b"9007199254740993", b"123456789012345678901234567890", b"0.1"):
        await bank.call_raw("pay", b'{"account": "a", "amount": %b}' % amount)
    amounts = [entry["amount"] for entry in entries(ledger)]
    assert amounts == [9007199254740993, 123456789012345678901234567890, 0.1]
    with pytest.raises(ToolNotCalled, match="exactly"):
        await bank.call_raw("pay", b'{"account": "a", "amount": 0.12345678901234567890123}')
    with pytest.raises(ToolNotCalled):
        await bank.call_raw("pay", b'{"account": "a", "amount": 1e400}')
    assert len(entries(ledger)) == 3


async def test_a_repeated_transfer_happens_once_and_a_payment_again(
    start: Start, ledger: Path
) -> None:
    bank = await start(bank_config(ledger))
    for _ in range(2):
        await bank.call("transfer", from_account="a", to_account="b", amount=5)
        await bank.call("pay", account="a", amount=1)
    await bank.call("transfer", key="key-2", from_account="a", to_account="b", amount=5)
    assert [entry["kind"] for entry in entries(ledger)] == ["transfer", "pay", "pay", "transfer"]


async def test_a_fault_of_the_tool_is_an_error_result(start: Start, ledger: Path) -> None:
    bank = await start(bank_config(ledger))
    result = await bank.call("pay", account="a", amount=-1)
    assert result.is_error
    assert "above 0" in result.text
    assert (await bank.call("no_such_tool")).is_error


async def test_death_in_mid_call_leaves_the_outcome_unknown(start: Start, ledger: Path) -> None:
    """Case 33: the money is gone, nobody was told."""
    bank = await start(bank_config(ledger, BANK_PAUSE="60"))
    await bank.connected()
    first = bank.process()
    call = asyncio.create_task(bank.call("pay", account="a", amount=1))

    async def paid() -> bool:
        return len(entries(ledger)) == 1

    await eventually(paid)
    first.kill()
    with pytest.raises(ToolOutcomeUnknown):
        await call
    # It comes back by itself, and a call that finds it away waits for it.
    assert (await bank.call("balance", account="a")).text == "a has 999."
    assert bank.process().pid != first.pid
    assert len(entries(ledger)) == 1


async def test_a_cancelled_call_does_not_hurt_the_next(start: Start, ledger: Path) -> None:
    bank = await start(bank_config(ledger, BANK_PAUSE="60"))
    await bank.connected()
    process = bank.process()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await bank.call("pay", account="a", amount=1)
    assert (await bank.call("balance", account="a")).text == "a has 999."
    assert bank.process().pid == process.pid


def test_the_agent_asks_before_it_pays_much() -> None:
    spec = yaml.safe_load((BANK / "agent.yaml").read_text())
    names = ("bank__pay", "bank__transfer", "bank__balance")
    rules = effective(
        parse_interrupt_on(spec["interrupt_on"], known_tools=names),
        names,
        dict.fromkeys(names, "bank"),
    )
    pay = spec["model"]["turns"][0]["tool_calls"][1]
    assert isinstance(judge(rules[pay["name"]], pay["arguments"]), Gated)
    assert isinstance(judge(rules["bank__pay"], {"account": "ops", "amount": 100}), NotGated)
    assert isinstance(judge(rules["bank__balance"], {"account": "ops"}), NotGated)
