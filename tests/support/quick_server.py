"""The counting server once more, by hand and without any library: it is there in 50 ms, where
importing `mcp` takes a second. For tests that start it hundreds of times.

Tools, ledger and `hold-ITEM` are those of `counting_server.py`; calls run one after the other. A
file `strict` makes every tool demand a reason.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["COUNTING_FOLDER"])
SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["item"],
}


def main() -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], **handle(request)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, or its error."""
    match request["method"]:
        case "initialize":
            about = {"name": "count", "version": "1"}
            version = request["params"]["protocolVersion"]
            capabilities: dict[str, Any] = {"tools": {}}
            return {
                "result": {
                    "protocolVersion": version,
                    "capabilities": capabilities,
                    "serverInfo": about,
                }
            }
        case "tools/list":
            strict = (FOLDER / "strict").exists()
            schema = {**SCHEMA, "required": ["item", "reason"]} if strict else SCHEMA
            tools = [{"name": n, "inputSchema": schema} for n in ("look", "put", "fire")]
            return {"result": {"tools": tools}}
        case "tools/call":
            text = call(request["params"])
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


def call(params: dict[str, Any]) -> str:
    """Write the execution down, then wait while it is held; the answer."""
    meta, arguments = params.get("_meta") or {}, params["arguments"]
    entry = {
        "tool": params["name"],
        "item": arguments["item"],
        "amount": arguments.get("amount", 0),
        "key": meta.get("hango/idempotency-key"),
        "run_id": meta.get("hango/run-id"),
        "tool_call_id": meta.get("hango/tool-call-id"),
    }
    with (FOLDER / "ledger.jsonl").open("a") as ledger:
        ledger.write(json.dumps(entry) + "\n")
    hold = FOLDER / f"hold-{arguments['item']}"
    if hold.exists():
        hold.read_bytes()
    return f"{params['name']} {arguments['item']}"


if __name__ == "__main__":
    main()
