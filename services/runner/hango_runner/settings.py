"""Settings of the runner."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from hango_platform.settings import Addr, Duration, Lanes, PostgresUrl, ServiceSettings
from pydantic import Field, model_validator

_SHORTEST_LEASE = timedelta(seconds=1)


class RunnerSettings(ServiceSettings):
    """What the runner needs to know, from `HANGO_*`."""

    runner_dsn: PostgresUrl = Field(description="The runner's database, as the runner's login.")
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
    runner_pool: Annotated[int, Field(ge=4, le=200)] = Field(
        default=16, description="The most connections to the runner's database."
    )

    @model_validator(mode="after")
    def _lease_long_enough(self) -> RunnerSettings:
        if self.lease_ttl < _SHORTEST_LEASE:
            msg = "lease_ttl must be at least 1s"
            raise ValueError(msg)
        return self
