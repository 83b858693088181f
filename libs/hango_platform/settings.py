"""Settings from `HANGO_*` variables: the only place of the platform that reads the environment."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LAST_PORT = 65_535


def parse_duration(text: Any) -> timedelta:
    """`90s`, `24h`, `1m30s`, `500ms` as a timedelta. Raises ValueError for anything else."""
    if isinstance(text, timedelta):
        return text
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", str(text))
    if not parts or "".join(n + u for n, u in parts) != str(text).strip():
        msg = "must be a duration such as 90s, 5m or 24h"
        raise ValueError(msg)
    return timedelta(seconds=sum(float(n) * _UNITS[u] for n, u in parts))


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this value."""
    seconds = value.total_seconds()
    for unit in ("d", "h", "m", "s"):
        if seconds >= _UNITS[unit] and (seconds / _UNITS[unit]).is_integer():
            return f"{int(seconds / _UNITS[unit])}{unit}"
    return f"{int(seconds * 1000)}ms"


Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)
]


def parse_lanes(text: Any) -> dict[str, int]:
    """`default:16,batch:4` as slots by lane. Raises ValueError for anything else."""
    if isinstance(text, dict):
        return text
    lanes: dict[str, int] = {}
    for part in str(text).split(","):
        match = re.fullmatch(r"\s*([a-z0-9-]+):([1-9]\d{0,3})\s*", part)
        if not match or match[1] in lanes:
            msg = "must be lanes and their slots, such as default:16,batch:4"
            raise ValueError(msg)
        lanes[match[1]] = int(match[2])
    return lanes


Lanes = Annotated[
    dict[str, int],
    NoDecode,  # else pydantic-settings reads the variable as JSON
    BeforeValidator(parse_lanes),
    PlainSerializer(lambda v: ",".join(f"{k}:{n}" for k, n in v.items()), return_type=str),
]


def _check_addr(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        msg = "must be host:port"
        raise ValueError(msg)
    return text


Addr = Annotated[str, AfterValidator(_check_addr)]
"""A `host:port`."""


def _check_scheme(*schemes: str) -> AfterValidator:
    def check(url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(tuple(f"{scheme}://" for scheme in schemes)):
            msg = f"must be a URL that begins with {schemes[0]}://"
            raise ValueError(msg)
        return url

    return AfterValidator(check)


PostgresUrl = Annotated[SecretStr, _check_scheme("postgresql", "postgres")]
NatsUrl = Annotated[SecretStr, _check_scheme("nats", "tls", "ws", "wss")]


_HEX_KEY = re.compile(r"[0-9a-f]{64}")


def _read_key(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("file:"):
        try:
            return Path(value.removeprefix("file:")).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            msg = "names a file that cannot be read"
            raise ValueError(msg) from None
    return value


def _check_key(key: SecretStr) -> SecretStr:
    if not _HEX_KEY.fullmatch(key.get_secret_value()):
        msg = "must be 64 hex digits (0-9, a-f), or file: and the path of a file that holds them"
        raise ValueError(msg)
    return key


HexKey = Annotated[SecretStr, BeforeValidator(_read_key), AfterValidator(_check_key)]
"""32 bytes in hex, or `file:PATH` of a file with them."""


class ServiceSettings(BaseSettings):
    """What every service needs to know. A service's own settings extend this class."""

    model_config = SettingsConfigDict(
        env_prefix="HANGO_", extra="ignore", hide_input_in_errors=True
    )

    internal_key: SecretStr = Field(
        min_length=32,
        description="Key that the services sign their calls to each other with: the same for all, "
        "32 characters or more.",
    )
    nats_url: NatsUrl = Field(
        default=SecretStr("nats://127.0.0.1:4222"),
        description="Where NATS with JetStream is, credentials included.",
    )
    metrics_addr: Addr = Field(
        default="127.0.0.1:0", description="Where `/metrics` is served; port 0 picks a free one."
    )
    log_level: str = Field(
        default="INFO",
        pattern="^(DEBUG|INFO|WARNING|ERROR)$",
        description="The least important log lines that are written.",
    )
    drain: Duration = Field(
        default=timedelta(seconds=75),
        description="How long a service that was told to stop waits for what is under way.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="Certificate (PEM) that the service proves itself with over gRPC, as server "
        "and as client. With it nobody without a certificate is let in.",
    )
    tls_key: Path | None = Field(default=None, description="The certificate's private key (PEM).")
    tls_ca: Path | None = Field(
        default=None, description="The authority (PEM) that the other side's certificate is of."
    )
    ready_fd: int | None = Field(
        default=None,
        description="A file descriptor to write the bound addresses to once; used by `hango up`.",
    )

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        files = (self.tls_cert, self.tls_key, self.tls_ca)
        if any(files) and not all(files):
            msg = "HANGO_TLS_CERT, HANGO_TLS_KEY and HANGO_TLS_CA must be set together"
            raise ValueError(msg)
        for file in filter(None, files):
            if not file.is_file():
                msg = "one of HANGO_TLS_CERT, HANGO_TLS_KEY and HANGO_TLS_CA names no file"
                raise ValueError(msg)
        return self
