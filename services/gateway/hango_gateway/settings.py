"""The settings of the gateway."""

from __future__ import annotations

from typing import Annotated

from hango_platform.settings import ServiceSettings
from pydantic import AfterValidator, Field


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        msg = "must be HOST:PORT"
        raise ValueError(msg)
    return text


class Settings(ServiceSettings):
    """Everything that can be set, as `HANGO_*` variables."""

    http_addr: Annotated[str, AfterValidator(_host_and_port)] = Field(
        default="127.0.0.1:8080", description="Where REST is served; port 0 picks a free one."
    )
    approvals_addr: str = Field(
        default="127.0.0.1:7401", description="Where the approvals service serves gRPC."
    )
    runner_addr: str = Field(
        default="127.0.0.1:7402", description="Where the runner service serves gRPC."
    )
