"""The operator's file of model endpoints: which names a spec's `model` may begin with."""

from __future__ import annotations

import enum
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hango_platform.settings import parse_duration

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[a-z0-9_-]{1,32}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = frozenset({"protocol", "base_url", "key", "models", "timeout", "max_output_tokens"})
_TAKEN = frozenset({"scripted"})
DEFAULT_TIMEOUT = 120.0


class Protocol(enum.StrEnum):
    """What an endpoint speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models are. A spec names one as `NAME:MODEL`.

    `key` names the environment variable that holds the credential, empty for none; `models` are
    those that may be asked for, empty for all; `timeout` is for how many seconds the endpoint may
    be silent; `max_output_tokens` bounds one answer, None for the provider's own bound.
    """

    name: str
    protocol: Protocol
    base_url: str
    key: str = ""
    models: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    max_output_tokens: int | None = None


PROVIDERS = (
    Endpoint("openai", Protocol.OPENAI, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Endpoint("anthropic", Protocol.ANTHROPIC, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
)
"""What is there without a file; a section of the same name takes its place."""


class EndpointFileInvalid(ValueError):
    """A file that cannot be used; `faults` lists all that is wrong with it, at least one."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))
        self.faults = faults


def load(path: Path | None) -> dict[str, Endpoint]:
    """The endpoints by name. Raises EndpointFileInvalid with every fault there is."""
    found = {endpoint.name: endpoint for endpoint in PROVIDERS}
    if path is None:
        return found
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EndpointFileInvalid(path, [f"cannot be read: {error}"]) from error
    faults = [
        f"[{name}] {fault}"
        for name, section in document.items()
        for fault in _faults(name, section)
    ]
    if faults:
        raise EndpointFileInvalid(path, faults)
    return found | {name: _endpoint(name, section) for name, section in document.items()}


def _endpoint(name: str, section: dict[str, Any]) -> Endpoint:
    timeout = section.get("timeout")
    return Endpoint(
        name,
        Protocol(section.get("protocol", Protocol.OPENAI)),
        section["base_url"],
        section.get("key", ""),
        tuple(section.get("models", ())),
        DEFAULT_TIMEOUT if timeout is None else parse_duration(timeout).total_seconds(),
        section.get("max_output_tokens"),
    )


def _faults(name: str, section: Any) -> list[str]:
    if not isinstance(section, dict):
        return ["must be a section"]
    faults = []
    if not _NAME.fullmatch(name) or name in _TAKEN:
        faults.append("the name must be 1 to 32 of a-z, 0-9, _ and -, and not scripted")
    faults += [f"{key}: is not known" for key in section if key not in _KEYS]
    if section.get("protocol", Protocol.OPENAI) not in list(Protocol):
        faults.append(f"protocol: must be one of {', '.join(Protocol)}")
    url = section.get("base_url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        faults.append("base_url: must be a URL of http or https")
    key = section.get("key", "X")
    if not isinstance(key, str) or not _VARIABLE.fullmatch(key):
        faults.append("key: must be the name of a variable, never the key itself")
    models = section.get("models", [])
    if not isinstance(models, list) or not all(isinstance(m, str) and m for m in models):
        faults.append("models: must be a list of names")
    most = section.get("max_output_tokens", 1)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        faults.append("max_output_tokens: must be a whole number above 0")
    return faults + _faults_of_timeout(section.get("timeout", "1s"))


def _faults_of_timeout(timeout: Any) -> list[str]:
    try:
        if isinstance(timeout, str) and parse_duration(timeout):
            return []
    except ValueError:
        pass
    return ["timeout: must be a duration above 0 in quotes, such as 90s"]
