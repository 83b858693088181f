"""What the model is shown of what its agent keeps."""

from typing import Any

import pytest
from hango_runner.agent.middleware.memory import MAX_NOTES, Memory
from hango_runner.agent.model import ModelRequest
from hango_runner.agent.skills import listing
from hango_runner.agent.state import Notes, Skill
from hango_runner.agent.tools import Effect, ToolSpec

READ = ToolSpec("read_file", "", {}, Effect.TRANSACTIONAL)
NO_RUN: Any = None


async def shown(
    notes: Notes | None, *, instructions: str = "Be brief.", can_read: bool = True
) -> str:
    tools = [READ] if can_read else []
    request = ModelRequest(instructions, [], tools, notes)
    return (await Memory().before_model(NO_RUN, request)).instructions


def skill(head: str) -> Skill:
    return Skill("/skills/minutes/SKILL.md", head)


async def test_notes_and_skills_stand_behind_the_instructions() -> None:
    notes = Notes("German.", (skill("---\nname: Minutes\ndescription: How.\n---\nRest"),))
    assert await shown(notes) == (
        "Be brief.\n\nYour notes (/memories/AGENTS.md):\nGerman.\n\n"
        "Your skills; read a skill's file before you follow it:\n"
        "- Minutes (/skills/minutes/SKILL.md): How."
    )
    assert (await shown(Notes("x"), instructions="")).startswith("Your notes")
    assert await shown(Notes()) == await shown(None) == "Be brief."
    assert await shown(notes, can_read=False) == "Be brief."


async def test_both_are_bounded() -> None:
    text = await shown(Notes("x" * 300_000))
    assert len(text) < MAX_NOTES + 200
    assert "[cut here" in text
    many = tuple(Skill(f"/skills/s{n}/SKILL.md", "") for n in range(101))
    text = await shown(Notes(skills=many))
    assert text.count("SKILL.md") == 100
    assert text.endswith("- and more below /skills/")


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("---\ndescription: >-\n  two\n  lines\n---\n", "minutes ({}): two lines"),
        ("---\nname: [a, b]\ndescription: 5\n---\n", "minutes ({}): no description"),
        ("---\nname: x", "minutes ({}): no description"),
        ("---\n: : {{\n---\n", "minutes ({}): no description"),
        ("---\njust text\n---\n", "minutes ({}): no description"),
        ("---\nx: 2020-99-99\n---\n", "minutes ({}): no description"),
        (f"---\n{'[' * 4000}\n---\n", "minutes ({}): no description"),
        ("# Minutes", "minutes ({}): no description"),
        ("", "minutes ({}): no description"),
    ],
)
def test_front_matter_of_every_kind(head: str, line: str) -> None:
    assert listing(skill(head)) == "- " + line.format("/skills/minutes/SKILL.md")


def test_a_long_description_is_cut() -> None:
    assert len(listing(skill(f"---\ndescription: {'x' * 3000}\n---\n"))) < 600
