"""What the agent keeps for itself stands behind its instructions: its notes, and its skills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_runner.agent.chain import Middleware
from hango_runner.agent.skills import listing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hango_runner.agent.model import ModelRequest
    from hango_runner.agent.state import Notes, Run

NOTES = "/memories/AGENTS.md"
MOST_SKILLS = 100
MAX_NOTES = 64 * 1024
"""How many characters of the notes are shown."""


class Memory(Middleware):
    """Shows the model what it keeps, as it was when the run was taken up."""

    async def before_model(self, run: Run, request: ModelRequest) -> ModelRequest:
        """The request with the notes and a list of the skills behind the instructions, for an
        agent that can read files.
        """
        del run
        if request.notes is None or not any(t.name == "read_file" for t in request.tools):
            return request
        parts = [request.instructions] if request.instructions else []
        return replace(request, instructions="\n\n".join([*parts, *_shown(request.notes)]))


def _shown(notes: Notes) -> Iterator[str]:
    if notes.text is not None:
        text = notes.text[:MAX_NOTES]
        cut = "" if text == notes.text else f"\n[cut here; the whole is in {NOTES}]"
        yield f"Your notes ({NOTES}):\n{text}{cut}"
    if notes.skills:
        lines = [listing(skill) for skill in notes.skills[:MOST_SKILLS]]
        if len(notes.skills) > MOST_SKILLS:
            lines.append("- and more below /skills/")
        yield "\n".join(["Your skills; read a skill's file before you follow it:", *lines])
