"""Agents as people save and read them."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any

from hango_platform.errors import Conflict, InvalidRequest, NotFound, Violation
from hango_policy import rules, strict_json
from hango_policy.errors import JsonRefused, RuleInvalid, pointer_to

from hango_runner.agent.toolset import names_tool
from hango_runner.domain.agent import AgentVersion
from hango_runner.domain.spec import AgentSpec, Subagent, read_spec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from hango_platform.rpc.caller import Principal

    from hango_runner.agent.ports import Catalog
    from hango_runner.agent.tools import ToolSpec
    from hango_runner.ports import AgentStore

log = logging.getLogger(__name__)

MAX_SPEC_BYTES = 512 * 1024


class Agents:
    """What users may do with agents. `lanes` are those of this deployment."""

    def __init__(self, store: AgentStore, catalog: Catalog, lanes: Collection[str]) -> None:
        self._store = store
        self._catalog = catalog
        self._lanes = lanes

    async def save(self, name: str, source: bytes, *, by: Principal) -> tuple[AgentVersion, bool]:
        """Save a spec; the version it has, and whether the agent is new.

        The same spec again is no new version. Raises InvalidRequest with a pointer for each fault.
        """
        parsed = _parse(source)
        spec = read_spec(parsed)
        if spec.name != name:
            violation = Violation("/name", "must be the name in the path")
            raise InvalidRequest("the spec has another name", violations=[violation])  # noqa: EM101
        await self._catalog.settled()
        tools = self._catalog.specs(by.tenant)
        effective, warnings = self._check(spec, tools)
        for _ in range(3):
            newest = await self._store.newest(by.tenant_id, name)
            sha256 = hashlib.sha256(strict_json.dumps(parsed)).hexdigest()
            live = newest is not None and not newest.deleted
            if live and newest is not None and newest.spec_sha256 == sha256:
                return newest, False
            agent = AgentVersion(
                tenant_id=by.tenant_id,
                name=name,
                version=1 if newest is None else newest.version + 1,
                spec=source.decode(),
                spec_sha256=sha256,
                interrupt_on=strict_json.dumps(effective).decode(),
                warnings=tuple(w.message_with_entry for w in warnings),
            )
            saved = await self._store.save(agent, by, _audit(agent, warnings, by))
            if saved is not None:
                _log_weakened(saved, warnings, by)
                return saved, not live
        msg = "the agent is being saved by others at the same time; try once more"
        raise Conflict(msg)

    async def get(self, name: str, version: int, *, by: Principal) -> AgentVersion:
        """One version, or the newest (0). Raises NotFound."""
        newest = await self._store.newest(by.tenant_id, name)
        if newest is None or (newest.deleted and not version):
            raise NotFound
        if not version or version == newest.version:
            return newest
        found = await self._store.version(by.tenant_id, name, version)
        if found is None:
            raise NotFound
        return found

    async def list_page(
        self, after: tuple[datetime, str] | None, limit: int, *, by: Principal
    ) -> list[AgentVersion]:
        """The newest version of each agent in use, newest first."""
        return await self._store.list_page(by.tenant_id, after, limit)

    async def delete(self, name: str, *, by: Principal) -> None:
        """Take an agent out of use; paused runs keep their version. Raises NotFound."""
        record = {
            "actor_id": by.user_id,
            "action": "agent.delete",
            "target_kind": "agent",
            "target_id": name,
            "detail": {},
        }
        if not await self._store.delete(by.tenant_id, name, [record]):
            raise NotFound

    def tools(self, *, by: Principal) -> list[ToolSpec]:
        """The tools that a spec of this tenant may name, by name."""
        return [spec for _, spec in sorted(self._catalog.specs(by.tenant).items())]

    def _check(
        self, spec: AgentSpec, tools: Mapping[str, ToolSpec]
    ) -> tuple[dict[str, Any], list[_Warning]]:
        """The effective rules and the warnings. Raises InvalidRequest with all faults at once."""
        faults = list(_unknown_tools(spec.tools, tools, "/tools"))
        if spec.lane not in self._lanes:
            faults.append(Violation("/lane", f"must be one of {', '.join(sorted(self._lanes))}"))
        entries = _entries(spec.interrupt_on, tools, "/interrupt_on", faults)
        warnings = [] if entries is None else _warnings(entries, tools, "/interrupt_on")
        warnings += _unmatched(spec.tools, tools, "/tools")
        for pointer, subagent in _subagents(spec.subagents, "/subagents"):
            faults += _unknown_tools(subagent.tools, tools, f"{pointer}/tools")
            warnings += _unmatched(subagent.tools, tools, f"{pointer}/tools")
            if subagent.interrupt_on is not None:
                at = f"{pointer}/interrupt_on"
                own = _entries(subagent.interrupt_on, tools, at, faults)
                warnings += [] if own is None else _warnings(own, tools, at)
        if faults or entries is None:
            msg = "the agent spec is not valid"
            raise InvalidRequest(msg, violations=faults)
        names = [name for name, tool in tools.items() if names_tool(spec.tools, tool)]
        sources = {name: tools[name].source for name in names}
        effective = rules.effective(entries, sorted(names), sources)
        return {name: rule.as_json() for name, rule in effective.items()}, warnings


def _log_weakened(agent: AgentVersion, warnings: Sequence[_Warning], by: Principal) -> None:
    for warning in warnings:
        if warning.action is not None:
            log.warning(
                "a default rule was weakened",
                extra={
                    "agent": agent.name,
                    "version": agent.version,
                    "entry": warning.entry,
                    "action": warning.action,
                    "user_id": by.user_id,
                },
            )


class _Warning:
    """A warning and what it is recorded as."""

    def __init__(self, pointer: str, entry: str, message: str, action: str | None = None) -> None:
        self.entry = entry
        self.action = action
        self.message_with_entry = f"{pointer}: {entry} {message}"


def _parse(source: bytes) -> strict_json.JsonValue:
    try:
        return strict_json.parse(source, max_bytes=MAX_SPEC_BYTES)
    except JsonRefused as error:
        msg = "the agent spec is not valid JSON"
        raise InvalidRequest(msg, violations=[Violation("", str(error))]) from None


def _entries(
    source: object, tools: Mapping[str, ToolSpec], pointer: str, faults: list[Violation]
) -> rules.InterruptOn | None:
    try:
        return rules.parse_interrupt_on(source, known_tools=tools, pointer=pointer)
    except RuleInvalid as error:
        faults += [Violation(v.pointer, v.message) for v in error.violations]
        return None


def _warnings(
    entries: rules.InterruptOn, tools: Mapping[str, ToolSpec], pointer: str
) -> list[_Warning]:
    audited = {
        rules.WarningKind.INTERRUPT_REMOVED: "agent.interrupt_removed",
        rules.WarningKind.INTERRUPT_LOOSENED: "agent.interrupt_loosened",
    }
    return [
        _Warning(w.pointer, w.entry, w.message, audited.get(w.kind))
        for w in rules.warnings(entries, tools, pointer)
    ]


def _unknown_tools(
    patterns: Sequence[str] | None, tools: Mapping[str, ToolSpec], pointer: str
) -> Iterator[Violation]:
    for place, pattern in enumerate(patterns or ()):
        if "*" not in pattern and pattern not in tools:
            yield Violation(pointer_to(pointer, place), "is not the name of a known tool")


def _unmatched(
    patterns: Sequence[str] | None, tools: Mapping[str, ToolSpec], pointer: str
) -> list[_Warning]:
    return [
        _Warning(pointer_to(pointer, place), pattern, "matches no tool")
        for place, pattern in enumerate(patterns or ())
        if "*" in pattern and not any(rules.matches_glob(pattern, name) for name in tools)
    ]


def _subagents(subagents: Sequence[Subagent], pointer: str) -> Iterator[tuple[str, Subagent]]:
    for place, subagent in enumerate(subagents):
        at = pointer_to(pointer, place)
        yield at, subagent
        yield from _subagents(subagent.subagents, f"{at}/subagents")


def _audit(
    agent: AgentVersion, warnings: Sequence[_Warning], by: Principal
) -> list[dict[str, Any]]:
    common = {"actor_id": by.user_id, "target_kind": "agent", "target_id": agent.name}
    saved = {
        **common,
        "action": "agent.save",
        "detail": {"version": agent.version, "spec_sha256": agent.spec_sha256},
    }
    return [saved] + [
        {**common, "action": w.action, "detail": {"version": agent.version, "entry": w.entry}}
        for w in warnings
        if w.action is not None
    ]
