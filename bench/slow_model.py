"""A model server of the benchmark's own, as a process: speaks Chat Completions, takes its time.

Answers a user who says `do` with a gated call, and everybody else with a word. DELAY is how many
seconds an answer takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import uvloop

DELAY = float(os.environ.get("DELAY", "0"))
_HEAD = (
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n"
    "connection: keep-alive\r\n\r\n"
)
_CALL = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {
        "name": "write_file",
        "arguments": '{"path": "/refund.txt", "content": "25 EUR, damaged"}',
    },
}


def _events(delta: dict[str, Any], finish: str) -> bytes:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**base, "choices": [], "usage": usage},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(lines) + "data: [DONE]\n\n").encode()


TEXT = _events({"role": "assistant", "content": "done"}, "stop")
ACT = _events({"role": "assistant", "content": None, "tool_calls": [_CALL]}, "tool_calls")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length:")[2].split("\r\n")[0])
            last = json.loads(await reader.readexactly(length))["messages"][-1]
            await asyncio.sleep(DELAY)
            body = ACT if last["role"] == "user" and last["content"] == "do" else TEXT
            writer.write(_HEAD.format(len(body)).encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=16 * 1024 * 1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main())
