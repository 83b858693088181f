"""A gRPC tool server made with the SDK: what was changed, shipping a release, telling people.

RELEASES_LOG is its log, a file of JSON lines; RELEASES_ADDR is where it listens.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from hango import tool_server
from hango.tool_server import ToolCall, ToolError, tool
from pydantic import Field

LOG = Path(os.environ.get("RELEASES_LOG") or f"{tempfile.gettempdir()}/hango-releases.jsonl")
CHANGES = ("the inbox shows what will run", "a verdict is applied once")

Release = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$", description="Such as 1.2.0.")]


@tool(effect="read")
def changes(since: Release) -> list[str]:
    """What has changed since a release."""
    return [f"{since}: {change}" for change in CHANGES]


@tool(effect="keyed")
def ship(release: Release, where: Literal["staging", "production"], call: ToolCall) -> str:
    """Ship a release. Repeated with the same idempotency key, it ships once."""
    if release.startswith("0."):
        message = f"{release} was never built"
        raise ToolError(message)
    if not any(entry["key"] == call.idempotency_key for entry in _entries()):
        _append({"shipped": release, "where": where}, call)
    return f"{release} is in {where}."


@tool
def announce(text: Annotated[str, Field(max_length=500)], call: ToolCall) -> None:
    """Tell everybody. Cannot be taken back."""
    _append({"announced": text}, call)


def _entries() -> Iterator[dict[str, Any]]:
    if LOG.exists():
        yield from map(json.loads, LOG.read_text().splitlines())


def _append(entry: dict[str, str], call: ToolCall) -> None:
    with LOG.open("a") as log:
        log.write(json.dumps({**entry, "key": call.idempotency_key, "run": call.run_id}) + "\n")


if __name__ == "__main__":
    tool_server.serve(
        changes,
        ship,
        announce,
        address=os.environ.get("RELEASES_ADDR", "127.0.0.1:7500"),
        on_ready=lambda address: print(f"listening on {address}", flush=True),
    )
