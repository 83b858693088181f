"""A tool server of the worst manners, speaking just enough MCP by hand.

ODD_TOOLS is the JSON text of the tools it lists; ODD_START is `exit`, `mute` or `chatty`.
"""

import json
import os
import sys
import threading
from typing import Any

START = os.environ.get("ODD_START", "")


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def reply(request: dict[str, Any], result: Any) -> None:
    say({"id": request["id"], "result": result})


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def call(request: dict[str, Any]) -> None:
    params = request["params"]
    match params["name"]:
        case "environment":
            reply(request, text(json.dumps(dict(os.environ))))
        case "echo":
            reply(request, text(json.dumps(params)))
        case "error":
            say(
                {
                    "id": request["id"],
                    "error": {"code": params["arguments"]["code"], "message": "no"},
                }
            )
        case "garbage":
            reply(request, {"content": "no list"})
        case "flood":
            sys.stdout.write("x" * 9_000_000 + "\n")
            sys.stdout.flush()
        case "exit":
            os._exit(3)
        case "silence":
            pass
        case "grow":
            tools.append({"name": "grown", "inputSchema": {"type": "object"}})
            say({"method": "notifications/tools/list_changed"})
            reply(request, text("grown"))
        case "later":
            delay = params["arguments"]["seconds"]
            threading.Timer(delay, reply, (request, text(f"after {delay}"))).start()


tools: list[Any] = json.loads(os.environ.get("ODD_TOOLS", "[]"))
if START == "exit":
    sys.exit("the reason on stderr")
if START == "chatty":
    sys.stdout.write("Welcome to the odd server!\n{}\n")
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case _ if START == "mute":
            pass
        case "initialize":
            reply(
                asked,
                {
                    "protocolVersion": asked["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "odd", "version": "0"},
                },
            )
        case "tools/list":
            reply(asked, {"tools": tools})
        case "tools/call":
            call(asked)
