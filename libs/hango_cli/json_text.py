"""JSON as text, so that no digit of it is touched."""

import json
import re
from pathlib import Path
from typing import Any

import orjson
import yaml

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def reindent(text: str) -> str:
    """The same JSON over several lines: every key, string and number as it was written."""
    lines, depth, before = [""], 0, ""
    for part in _TOKEN.findall(text):
        closing, opened = part in ("}", "]"), before in ("{", "[")
        depth -= closing
        if before == "," or opened != closing:
            lines.append("  " * depth)
        lines[-1] += ": " if part == ":" else part
        depth += part in ("{", "[")
        before = part
    return "\n".join(lines)


def check(text: str) -> None:
    """Raises ValueError, with line and column, unless the text is one JSON value."""
    json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    message = f"{name} is not JSON"
    raise ValueError(message)


def read_spec(file: Path) -> tuple[str, bytes]:
    """The name in an agent file, and its text as JSON.

    JSON files are taken as they are. YAML is read by the JSON rules of YAML 1.2 (`no` and dates
    are text, keys are text, none comes twice), and numbers keep their digits. Raises ValueError.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        check(text)
        spec, body = json.loads(text), text.encode()
    else:
        try:
            spec = yaml.load(text, _JsonLoader)  # noqa: S506 - a SafeLoader
        except yaml.YAMLError as error:
            message = f"not YAML: {error}"
            raise ValueError(message) from None
        body = orjson.dumps(spec)
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        message = "an agent file is a mapping with a `name`"
        raise ValueError(message)
    return spec["name"], body


class _JsonLoader(yaml.SafeLoader):
    """YAML whose values are JSON values."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - how PyYAML has it


def _number(loader: _JsonLoader, node: yaml.ScalarNode) -> object:
    text = loader.construct_scalar(node)
    if _NUMBER.fullmatch(text):
        return orjson.Fragment(text)
    message = "write this number as JSON has it"
    raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _mapping(loader: _JsonLoader, node: yaml.MappingNode) -> dict[str, object]:
    found: dict[str, object] = {}
    for key_node, value_node in node.value:
        key = key_node.value
        if not isinstance(key, str) or key in found:
            message = "a key must be text, and must not come twice"
            raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_JsonLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("int", "float"):
    _JsonLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)
for _tag, _pattern, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _JsonLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first
    )
