"""Skills: what an agent keeps below /skills/, each told of by the front matter of its SKILL.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from hango_runner.agent.state import Skill

_FENCE = "---"
_MAX_DESCRIPTION = 500


def listing(skill: Skill) -> str:
    """One line about a skill: its name, where it is, what it is for."""
    front = _front_matter(skill.head)
    folder = skill.path.rsplit("/", 2)[-2]
    name, about = _line(front.get("name")) or folder, _line(front.get("description"))
    return f"- {name} ({skill.path}): {about or 'no description'}"


def _front_matter(head: str) -> dict[str, Any]:
    """What stands between the first two fences, if the text begins with one; else nothing."""
    first, *lines = head.splitlines() or [""]
    if first.strip() != _FENCE or _FENCE not in lines:
        return {}
    try:
        found = yaml.safe_load("\n".join(lines[: lines.index(_FENCE)]))
    except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none; brackets for ever
        return {}
    return found if isinstance(found, dict) else {}


def _line(value: object) -> str:
    """A text on one line. Anything else is left out: an alias can make it of any size."""
    if not isinstance(value, str):
        return ""
    text = " ".join(value.split())
    return text if len(text) <= _MAX_DESCRIPTION else text[:_MAX_DESCRIPTION] + "…"
