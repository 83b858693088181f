"""The settings of the approvals service."""

from __future__ import annotations

from datetime import timedelta

from hango_platform.settings import Duration, ServiceSettings
from pydantic import Field, SecretStr


class Settings(ServiceSettings):
    """Everything that can be set, as `HANGO_*` variables."""

    approvals_dsn: SecretStr = Field(
        description="The approvals database, as a member of hango_api and hango_system."
    )
    approvals_addr: str = Field(
        default="127.0.0.1:7401", description="Where the approvals service serves gRPC."
    )
    runner_addr: str = Field(
        default="127.0.0.1:7402", description="Where the runner service serves gRPC."
    )
    approval_ttl: Duration = Field(
        default=timedelta(hours=24),
        gt=timedelta(0),
        description="How long an approval waits for a person before it expires.",
    )
