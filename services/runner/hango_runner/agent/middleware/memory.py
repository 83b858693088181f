"""What the agent has written down for itself stands behind its instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_runner.agent.chain import Middleware

if TYPE_CHECKING:
    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Run

NOTES = "/memories/AGENTS.md"


class Memory(Middleware):
    """Shows the model its notes, as they were when the run was taken up."""

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """The request with the notes behind the instructions, for an agent that can read files."""
        del run
        if request.notes is None or not any(t.name == "read_file" for t in request.tools):
            return request
        head = f"{request.instructions}\n\n" if request.instructions else ""
        text = f"{head}Your notes ({NOTES}):\n{request.notes}"
        return replace(request, instructions=text)
