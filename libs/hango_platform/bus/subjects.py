"""The names on the bus."""

from __future__ import annotations

STREAM = "HANGO"
STREAM_SUBJECTS = "hango.*.*.*.v1"

EVENTS = (
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "approval.withdrawn",
    "run.resume",
    "run.cancelled",
    "run.finished",
)


def event(tenant: str, kind: str) -> str:
    """Where an event of a tenant (its slug) is published; `kind` is one of EVENTS."""
    return f"hango.{tenant}.{kind}.v1"


def every_tenant(kind: str) -> str:
    """The filter for one kind of event of all tenants."""
    return f"hango.*.{kind}.v1"


def run_wake(run_id: str) -> str:
    """Where R says that a run's story has grown. Outside the stream: nothing is kept."""
    return f"wake.run.{run_id}"


def run_delta(run_id: str) -> str:
    """Where R says what a model has just said. Outside the stream: nothing is kept."""
    return f"delta.run.{run_id}"
