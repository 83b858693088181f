"""The operator's file of tool servers (contract, section 4, "Tool servers")."""

from __future__ import annotations

import enum
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hango_platform.settings import parse_duration

from hango_runner.agent.tools import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EVERY_TENANT = "*"

_NAME = re.compile(r"[a-z0-9_-]{1,32}")
_TENANT = re.compile(r"[a-z0-9-]+")
_HEADER = re.compile(r"[A-Za-z0-9_.-]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EFFECTS = (Effect.READ, Effect.KEYED, Effect.ONCE)
"""What a tool server's tool can be."""
_PYTHON = frozenset({"python", "python3"})


class Transport(enum.StrEnum):
    """How a tool server is spoken to."""

    MCP_STDIO = "mcp-stdio"
    MCP_HTTP = "mcp-http"
    GRPC = "grpc"


_TARGETS = {Transport.MCP_STDIO: "command", Transport.MCP_HTTP: "url", Transport.GRPC: "address"}
_KEYS = frozenset(
    {"transport", "tenants", "env", "headers", "effects", "timeout", "timeouts", *_TARGETS.values()}
)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One tool server as the operator wrote it down.

    `folder` is the file's own; `timeout` and `timeouts` (by tool) are in seconds, None for the
    agent's limit. `headers` go with every request of HTTP, as metadata with every call of gRPC.
    """

    name: str
    transport: Transport
    folder: Path
    command: tuple[str, ...] = ()
    url: str = ""
    address: str = ""
    tenants: tuple[str, ...] = (EVERY_TENANT,)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    timeout: float | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)

    def serves(self, tenant: str) -> bool:
        """Whether the tenant of this slug may use it."""
        return EVERY_TENANT in self.tenants or tenant in self.tenants

    def effect_of(self, tool: str) -> Effect:
        """What the operator says of this tool; `once` where nothing is said."""
        return self.effects.get(tool, Effect.ONCE)

    def timeout_of(self, tool: str) -> float | None:
        """How long a call of this tool may take, in seconds, if the operator says so."""
        return self.timeouts.get(tool, self.timeout)

    def argv(self) -> tuple[str, ...]:
        """The command with its program found: in the file's folder, else on the PATH.

        `python` is the interpreter that runs this service. Raises FileNotFoundError.
        """
        program, *arguments = self.command
        if program in _PYTHON:
            return (sys.executable, *arguments)
        beside = self.folder / program
        found = str(beside) if beside.is_file() else shutil.which(program)
        if found is None:
            message = f"there is no program {program}"
            raise FileNotFoundError(message)
        return (found, *arguments)


class ServerFileInvalid(ValueError):
    """A file of tool servers that cannot be used; `faults` lists all of them, at least one."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))
        self.faults = faults


def load(path: Path) -> tuple[ServerConfig, ...]:
    """Read the file. Raises ServerFileInvalid with every fault there is."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ServerFileInvalid(path, [f"cannot be read: {error}"]) from error
    faults: list[str] = []
    configs = []
    folder = path.absolute().parent
    for name, section in document.items():
        found = _Section(name, section).faults()
        faults += [f"[{name}] {fault}" for fault in found]
        if not found:
            configs.append(_config(name, section, folder))
    if faults:
        raise ServerFileInvalid(path, faults)
    return tuple(configs)


def _config(name: str, section: dict[str, Any], folder: Path) -> ServerConfig:
    timeout = section.get("timeout")
    return ServerConfig(
        name=name,
        transport=Transport(section["transport"]),
        folder=folder,
        command=tuple(section.get("command", ())),
        url=section.get("url", ""),
        address=section.get("address", ""),
        tenants=tuple(section.get("tenants", (EVERY_TENANT,))),
        env=dict(section.get("env", {})),
        effects={tool: Effect(effect) for tool, effect in section.get("effects", {}).items()},
        headers=dict(section.get("headers", {})),
        timeout=None if timeout is None else parse_duration(timeout).total_seconds(),
        timeouts={
            tool: parse_duration(limit).total_seconds()
            for tool, limit in section.get("timeouts", {}).items()
        },
    )


class _Section:
    """What is wrong with one section."""

    def __init__(self, name: str, section: Any) -> None:
        self._name = name
        self._section = section

    def faults(self) -> list[str]:
        if not isinstance(self._section, dict):
            return ["must be a section"]
        checks = (
            self._of_name,
            self._of_keys,
            self._of_target,
            self._of_tenants,
            self._of_env,
            self._of_headers,
            self._of_effects,
            self._of_timeout,
        )
        return [fault for check in checks for fault in check()]

    def _of_name(self) -> list[str]:
        if _NAME.fullmatch(self._name) and "__" not in self._name and self._name[-1] != "_":
            return []
        return [
            "the name must be 1 to 32 of a-z, 0-9, _ and -, without a double underscore and not "
            "ending in an underscore"
        ]

    def _of_keys(self) -> list[str]:
        return [f"{key}: is not known" for key in self._section if key not in _KEYS]

    def _of_target(self) -> list[str]:
        transport = self._section.get("transport")
        if transport not in list(Transport):
            return [f"transport: must be one of {', '.join(Transport)}"]
        wanted = _TARGETS[Transport(transport)]
        faults = [
            f"{key}: does not belong to transport {transport}"
            for key in _TARGETS.values()
            if key != wanted and key in self._section
        ]
        target = self._section.get(wanted)
        if wanted == "command":
            if not _texts(target) or not target or not target[0]:
                faults.append("command: must be a list of text, the program first")
        elif not isinstance(target, str) or not target:
            faults.append(f"{wanted}: must be text")
        if "env" in self._section and wanted != "command":
            faults.append(f"env: does not belong to transport {transport}")
        return faults

    def _of_tenants(self) -> list[str]:
        tenants = self._section.get("tenants", [EVERY_TENANT])
        if _texts(tenants) and all(t == EVERY_TENANT or _TENANT.fullmatch(t) for t in tenants):
            return []
        return ['tenants: must be a list of tenants\' names, or ["*"]']

    def _of_env(self) -> list[str]:
        env = self._section.get("env", {})
        if not isinstance(env, dict):
            return ["env: must be a table"]
        faults = [f"env.{key}: must be a variable's name" for key in env if not _named(key)]
        return faults + [
            f"env.{key}: must be text without NUL"
            for key, value in env.items()
            if not isinstance(value, str) or "\0" in value
        ]

    def _of_effects(self) -> list[str]:
        effects = self._section.get("effects", {})
        if not isinstance(effects, dict):
            return ["effects: must be a table of tools and their effects"]
        return [
            f"effects.{tool}: must be one of {', '.join(EFFECTS)}"
            for tool, effect in effects.items()
            if effect not in list(EFFECTS)
        ]

    def _of_headers(self) -> list[str]:
        headers = self._section.get("headers", {})
        if not isinstance(headers, dict):
            return ["headers: must be a table"]
        faults = [
            f"headers.{key}: must be a header's name and its text, in ASCII"
            for key, value in headers.items()
            if not (_HEADER.fullmatch(key) and isinstance(value, str) and _PLAIN.fullmatch(value))
        ]
        if headers and self._section.get("transport") == Transport.MCP_STDIO:
            faults.append(f"headers: does not belong to transport {Transport.MCP_STDIO}")
        return faults

    def _of_timeout(self) -> list[str]:
        limits = self._section.get("timeouts", {})
        if not isinstance(limits, dict):
            return ["timeouts: must be a table of tools and their durations"]
        asked = {f"timeouts.{tool}": limit for tool, limit in limits.items()}
        if "timeout" in self._section:
            asked = {"timeout": self._section["timeout"], **asked}
        return [
            f"{key}: must be a duration above 0 in quotes, such as 30s"
            for key, limit in asked.items()
            if not _duration(limit)
        ]


def _duration(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(parse_duration(value))
    except ValueError:
        return False


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and "\0" not in v for v in value)


def _named(key: str) -> bool:
    return _VARIABLE.fullmatch(key) is not None
