"""What the agent has written down for itself stands at the head of its instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from hango_runner.agent.chain import Middleware

if TYPE_CHECKING:
    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Run

NOTES = "/memories/AGENTS.md"


class Notes(Protocol):
    """Reads the agent's lasting files."""

    async def lasting_file(self, run: Run, path: str) -> str | None:
        """The newest content of a file below `/memories/` or `/skills/`, if there is one."""


class Memory(Middleware):
    """Shows the model `/memories/AGENTS.md`, as it is at the moment of the call."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """The request with the notes behind the instructions."""
        if not any(tool.name == "read_file" for tool in request.tools):
            return request
        text = await self._notes.lasting_file(run, NOTES)
        if text is None:
            return request
        head = f"{request.instructions}\n\n" if request.instructions else ""
        return replace(request, instructions=f"{head}Your notes ({NOTES}):\n{text}")
