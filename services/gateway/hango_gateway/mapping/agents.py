"""Agents and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_gateway.mapping import values

if TYPE_CHECKING:
    from hango.runs.v1 import runs_pb2

    from hango_gateway.mapping.values import Json


def agent(found: runs_pb2.Agent) -> Json:
    """One version of an agent."""
    return {
        "name": found.name,
        "version": found.version,
        "spec": values.raw(found.spec_json),
        "interrupt_on": values.raw(found.interrupt_on_json or b"{}"),
        "warnings": list(found.warnings),
        "created_at": values.time(found, "created_at"),
    }


def tool(found: runs_pb2.ToolInfo) -> Json:
    """A tool that a spec may name."""
    return {
        "name": found.name,
        "description": found.description,
        "parameters": values.raw(found.parameters_json or b"{}"),
        "effect": found.effect,
        "source": found.source,
        "unavailable": found.unavailable or None,
    }
