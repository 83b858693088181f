"""Settings of the runner."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from hango_platform.settings import Addr, Duration, HexKey, Lanes, PostgresUrl, ServiceSettings
from pydantic import Field, model_validator

_SHORTEST_LEASE = timedelta(seconds=1)


class RunnerSettings(ServiceSettings):
    """What the runner needs to know, from `HANGO_*`."""

    runner_dsn: PostgresUrl = Field(description="The runner's database, as the runner's login.")
    encryption_key: HexKey | None = Field(
        default=None,
        description="Master key (64 hex digits, or file:PATH): with it the values of tool calls "
        "are stored encrypted, with a key of each tenant's own.",
    )
    postgres_pooler: bool = Field(
        default=False,
        description="Whether the DSN leads through a pooler in transaction mode, such as "
        "pgbouncer: no statement is kept prepared then, and queued runs are found by a poll each "
        "second, not by LISTEN.",
    )
    runner_addr: Addr = Field(
        default="127.0.0.1:7402",
        description="Where the runner serves gRPC; port 0 picks a free one.",
    )
    approvals_addr: Addr = Field(
        default="127.0.0.1:7401", description="Where the approvals service is."
    )
    lanes: Lanes = Field(
        default={"default": 16, "batch": 4},
        description="Queues and how many runs of each this process works on at once.",
    )
    lease_ttl: Duration = Field(
        default=timedelta(seconds=30),
        description="How long a worker that is not heard of keeps a run.",
    )
    tool_servers: Path | None = Field(
        default=None, description="The operator's TOML file of tool servers."
    )
    model_endpoints: Path | None = Field(
        default=None,
        description="The operator's TOML file of model endpoints, beside openai and anthropic.",
    )
    runner_pool: Annotated[int, Field(ge=4, le=200)] = Field(
        default=16, description="The most connections to the runner's database."
    )

    @model_validator(mode="after")
    def _lease_long_enough(self) -> RunnerSettings:
        if self.lease_ttl < _SHORTEST_LEASE:
            msg = "lease_ttl must be at least 1s"
            raise ValueError(msg)
        return self


def secret(variable: str) -> str | None:
    """A credential that the operator's file names by its variable; None where it is not set."""
    return os.environ.get(variable) or None
