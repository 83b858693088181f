"""The settings of the sweeper."""

from __future__ import annotations

from datetime import timedelta

from hango_platform.settings import Addr, Duration, ServiceSettings
from pydantic import Field

_SHORTEST = timedelta(milliseconds=10)


class Settings(ServiceSettings):
    """Everything that can be set, as `HANGO_*` variables."""

    approvals_addr: Addr = Field(
        default="127.0.0.1:7401", description="Where the approvals service serves gRPC."
    )
    runner_addr: Addr = Field(
        default="127.0.0.1:7402", description="Where the runner service serves gRPC."
    )
    approval_sweep_interval: Duration = Field(
        default=timedelta(seconds=1),
        ge=_SHORTEST,
        description="How often approvals that nobody decided in time are expired.",
    )
    reap_interval: Duration = Field(
        default=timedelta(seconds=1),
        ge=_SHORTEST,
        description="How often runs are taken from workers whose lease is over.",
    )
    reconcile_interval: Duration = Field(
        default=timedelta(seconds=5),
        ge=_SHORTEST,
        description="How often awaiting runs ask for verdicts that a lost message kept from them.",
    )
    orphan_interval: Duration = Field(
        default=timedelta(seconds=60),
        ge=_SHORTEST,
        description="How often approvals whose run is over are withdrawn.",
    )
    prune_interval: Duration = Field(
        default=timedelta(minutes=5),
        ge=_SHORTEST,
        description="How often sent messages and old idempotency records are deleted.",
    )
    check_interval: Duration = Field(
        default=timedelta(hours=1),
        ge=_SHORTEST,
        description="How often the audit trail and the decisions are compared with what ran.",
    )
