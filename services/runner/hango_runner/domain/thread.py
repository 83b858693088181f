"""Conversations over several runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation; `live_run_id` is its run that is not over."""

    id: str
    agent: str
    created_by: str
    created_at: datetime
    runs: int
    live_run_id: str | None
