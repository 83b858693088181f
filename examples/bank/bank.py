"""A small bank as an MCP tool server: what an agent may do only when a person agrees.

Its ledger is a file of JSON lines, BANK_LEDGER, synced at every entry. BANK_PAUSE is how many
seconds a payment takes between its entry and its answer: time to kill something.
"""

import asyncio
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

LEDGER = Path(
    os.environ.get("BANK_LEDGER") or f"{tempfile.gettempdir()}/hango-bank-{os.getuid()}.jsonl"
)
PAUSE = float(os.environ.get("BANK_PAUSE", "0"))
OPENING_BALANCE = 1000

server = MCPServer("bank")


@server.tool()
async def pay(account: str, amount: int | float, ctx: Context, reference: str = "") -> str:
    """Pay an amount from an account. Every call pays, a repeated one again."""
    _check(amount)
    entry = {"kind": "pay", "account": account, "amount": amount, "reference": reference}
    with _ledger() as ledger:
        _append(ledger, entry, ctx)
    await asyncio.sleep(PAUSE)
    return f"Paid {amount} from {account}."


@server.tool()
async def transfer(from_account: str, to_account: str, amount: int | float, ctx: Context) -> str:
    """Move an amount between accounts. A call repeated with the same key moves it once."""
    _check(amount)
    entry = {"kind": "transfer", "from": from_account, "to": to_account, "amount": amount}
    with _ledger() as ledger:
        key = _meta(ctx).get("hango/idempotency-key")
        known = key is not None and any(e.get("idempotency_key") == key for e in _entries(ledger))
        if not known:
            _append(ledger, entry, ctx)
    await asyncio.sleep(PAUSE)
    return f"Moved {amount} from {from_account} to {to_account}."


@server.tool()
def balance(account: str) -> str:
    """How much is on an account."""
    total: int | float = OPENING_BALANCE
    with _ledger() as ledger:
        for entry in _entries(ledger):
            if account in (entry.get("account"), entry.get("from")):
                total -= entry["amount"]
            if account == entry.get("to"):
                total += entry["amount"]
    return f"{account} has {total}."


def _check(amount: float) -> None:
    if amount <= 0:
        message = "the amount must be above 0"
        raise ToolError(message)


@contextmanager
def _ledger() -> Iterator[IO[str]]:
    """The ledger, for this process alone while it is used."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(LEDGER, flags, 0o600), "r+") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        yield ledger


def _entries(ledger: IO[str]) -> list[dict[str, Any]]:
    ledger.seek(0)
    return [json.loads(line) for line in ledger]


def _append(ledger: IO[str], entry: dict[str, Any], ctx: Context) -> None:
    meta = _meta(ctx)
    entry |= {
        "idempotency_key": meta.get("hango/idempotency-key"),
        "run_id": meta.get("hango/run-id"),
        "tool_call_id": meta.get("hango/tool-call-id"),
    }
    ledger.write(json.dumps(entry) + "\n")
    ledger.flush()
    os.fsync(ledger.fileno())


def _meta(ctx: Context) -> dict[str, Any]:
    """What hango sent along with the call."""
    return dict(ctx.request_context.meta or {})


if __name__ == "__main__":
    server.run()
