"""A tool server over MCP whose every execution is a line in a ledger, so that tests can count.

`COUNTING_FOLDER` holds the ledger and what tests put there to steer a call by its `item`: a FIFO
`hold-ITEM` keeps the call from answering until somebody opens it for writing; a file `die-ITEM`
makes the server take it away and die in mid-call, after the ledger was written.
"""

import asyncio
import json
import os
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

FOLDER = Path(os.environ["COUNTING_FOLDER"])

server = MCPServer("count")


@server.tool()
async def look(item: str, ctx: Context, amount: int = 0) -> str:
    """Safe to repeat."""
    return await _run("look", item, amount, ctx)


@server.tool()
async def put(item: str, ctx: Context, amount: int = 0) -> str:
    """Told apart by its idempotency key."""
    return await _run("put", item, amount, ctx)


@server.tool()
async def fire(item: str, ctx: Context, amount: int = 0, path: str = "", delay_ms: int = 0) -> str:
    """Never to be repeated. Answers after `delay_ms`."""
    del path
    answer = await _run("fire", item, amount, ctx)
    await asyncio.sleep(delay_ms / 1000)
    return answer


@server.tool()
async def fail(item: str, ctx: Context) -> str:
    """Always fails."""
    await _run("fail", item, 0, ctx)
    message = f"no luck with {item}"
    raise ToolError(message)


async def _run(tool: str, item: str, amount: int, ctx: Context) -> str:
    meta = dict(ctx.request_context.meta or {})
    entry = {
        "tool": tool,
        "item": item,
        "amount": amount,
        "key": meta.get("hango/idempotency-key"),
        "run_id": meta.get("hango/run-id"),
        "tool_call_id": meta.get("hango/tool-call-id"),
    }
    with (FOLDER / "ledger.jsonl").open("a") as ledger:
        ledger.write(json.dumps(entry) + "\n")
    death = FOLDER / f"die-{item}"
    if death.exists():
        death.unlink()
        os._exit(1)
    hold = FOLDER / f"hold-{item}"
    if hold.exists():
        await asyncio.to_thread(hold.read_bytes)
    return f"{tool} {item} {amount}"


if __name__ == "__main__":
    server.run()
