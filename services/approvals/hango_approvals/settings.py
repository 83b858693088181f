"""The settings of the approvals service."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from hango_platform.settings import Addr, Duration, HexKey, PostgresUrl, ServiceSettings
from pydantic import Field, field_validator, model_validator

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Settings(ServiceSettings):
    """Everything that can be set, as `HANGO_*` variables."""

    approvals_dsn: PostgresUrl = Field(
        description="The approvals database, as a member of hango_api and hango_system."
    )
    encryption_key: HexKey | None = Field(
        default=None,
        description="Master key (64 hex digits, or file:PATH): with it the values of tool calls "
        "are stored encrypted, with a key of each tenant's own.",
    )
    postgres_pooler: bool = Field(
        default=False,
        description="Whether the DSN leads through a pooler in transaction mode, such as "
        "pgbouncer: no statement is kept prepared then.",
    )
    approvals_addr: Addr = Field(
        default="127.0.0.1:7401",
        description="Where the approvals service serves gRPC; port 0 picks a free one.",
    )
    runner_addr: Addr = Field(default="127.0.0.1:7402", description="Where the runner is.")
    approval_ttl: Duration = Field(
        default=timedelta(hours=24),
        gt=timedelta(0),
        description="How long an approval waits for a person before it expires.",
    )
    oidc_issuer: str = Field(
        default="",
        description="Whose OIDC tokens are taken beside API keys; empty for nobody's. Plain http "
        "only on loopback.",
    )
    oidc_audience: str = Field(
        default="",
        description="The audience that a token must be meant for; needed with an issuer.",
    )
    oidc_tenant_claim: str = Field(
        default="tenant", min_length=1, description="The claim that names the tenant, by its slug."
    )
    oidc_role_claim: str = Field(
        default="role",
        min_length=1,
        description="The claim that is member, admin or owner; a token without it is refused.",
    )

    audit_signing_key: HexKey | None = Field(
        default=None,
        description="Ed25519 key (64 hex digits, or file:PATH) that the ends of audit chains are "
        "signed with; needed for what follows.",
    )
    audit_trusted_keys: str = Field(
        default="",
        pattern="^([0-9a-f]{64}(,[0-9a-f]{64})*)?$",
        description="Public keys, joined by commas, whose signatures still count: those of "
        "signing keys that were replaced.",
    )
    audit_anchor_file: Path | None = Field(
        default=None,
        description="File that signed heads of all chains are appended to, as JSON lines; best on "
        "a disk that the database's administrators cannot write.",
    )
    audit_anchor_interval: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(milliseconds=10),
        description="How often the heads that moved are signed and written.",
    )
    audit_retention: Duration | None = Field(
        default=None,
        gt=timedelta(0),
        description="How long audit rows are kept; for ever by default. Older ones are deleted "
        "behind a signed checkpoint.",
    )

    @field_validator("oidc_issuer")
    @classmethod
    def _issuer_is_safe(cls, url: str) -> str:
        if url and not is_safe_url(url):
            msg = "must be an https URL, or http on loopback"
            raise ValueError(msg)
        return url

    @model_validator(mode="after")
    def _issuer_has_an_audience(self) -> Settings:
        if self.oidc_issuer and not self.oidc_audience:
            msg = "HANGO_OIDC_AUDIENCE must be set with HANGO_OIDC_ISSUER"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _what_is_signed_has_a_key(self) -> Settings:
        signs = self.audit_anchor_file is not None or self.audit_retention is not None
        if signs and self.audit_signing_key is None:
            msg = "HANGO_AUDIT_SIGNING_KEY must be set with an anchor file or a retention"
            raise ValueError(msg)
        return self


def is_safe_url(url: str) -> bool:
    """Whether keys may be fetched from there: by https, or from this very machine."""
    parts = urlsplit(url)
    loopback = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return bool(parts.hostname) and (parts.scheme == "https" or loopback)
