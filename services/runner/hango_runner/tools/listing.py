"""From what a server says of its tools to tools that agents may be offered."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from hango_policy.errors import SchemaRefused
from hango_policy.schemas import compile_schema

from hango_runner.agent.tools import ToolSpec
from hango_runner.tools.server import ListedTool
from hango_runner.tools.text import is_storable, presentable, texts_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hango_runner.tools.server_file import ServerConfig

log = logging.getLogger(__name__)

MAX_TOOLS = 256
"""How many tools of one server are looked at."""
MAX_DESCRIPTION_BYTES = 8 * 1024
"""How much of a description is kept."""

# What every model provider takes as the name of a tool.
_CALLABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


def listed_tools(config: ServerConfig, offered: Iterable[Any]) -> dict[str, ListedTool]:
    """The tools by `SERVER__TOOL`; a broken or hostile one stays, unavailable, with the reason.

    `offered` is what the server sent, unchecked. Takes up to 50 ms a tool: not for the event
    loop.
    """
    found: dict[str, ListedTool] = {}
    for tool in offered:
        if len(found) == MAX_TOOLS:
            log.warning("tools left out", extra={"server": config.name, "most": MAX_TOOLS})
            break
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            log.warning("tool without a name dropped", extra={"server": config.name})
            continue
        listed = _listed(config, tool)
        if listed.spec.name in found:
            log.warning(
                "tool of the same name dropped",
                extra={"server": config.name, "tool": listed.spec.name},
            )
            continue
        if listed.spec.unavailable:
            log.warning(
                "tool dropped",
                extra={"tool": listed.spec.name, "reason": listed.spec.unavailable},
            )
        found[listed.spec.name] = listed
    for name in config.effects.keys() - {tool.name for tool in found.values()}:
        log.warning("effect of a tool that is not there", extra={"tool": f"{config.name}__{name}"})
    return found


def _listed(config: ServerConfig, tool: dict[str, Any]) -> ListedTool:
    theirs = tool["name"]
    name = f"{config.name}__{theirs}"
    if not theirs or not _CALLABLE.fullmatch(name):
        fit = _UNFIT.sub("?", name)[:128]
        return _unavailable(config, tool, fit, "the name is not one that models can call")
    parameters = tool.get("inputSchema")
    if not isinstance(parameters, dict):
        return _unavailable(config, tool, name, "the schema is not an object")
    try:
        schema = compile_schema(parameters)
    except SchemaRefused as error:
        return _unavailable(config, tool, name, f"the schema {error.reason}")
    if not all(map(is_storable, texts_in(parameters))):
        return _unavailable(config, tool, name, "the schema has a NUL, which cannot be stored")
    spec = ToolSpec(
        name, _description(tool), parameters, config.effect_of(theirs), source=config.name
    )
    return ListedTool(theirs, spec, schema)


def _unavailable(config: ServerConfig, tool: dict[str, Any], name: str, reason: str) -> ListedTool:
    effect = config.effect_of(tool["name"])
    spec = ToolSpec(name, _description(tool), {}, effect, config.name, unavailable=reason)
    return ListedTool(tool["name"], spec, None)


def _description(tool: dict[str, Any]) -> str:
    text = tool.get("description")
    return presentable(text, MAX_DESCRIPTION_BYTES) if isinstance(text, str) else ""
