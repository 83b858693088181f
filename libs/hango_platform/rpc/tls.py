"""Mutual TLS between services: both sides prove with a certificate of the deployment's own
authority that they belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from pathlib import Path

    from hango_platform.settings import ServiceSettings


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key, and the authority that vouches for the other side's (PEM)."""

    certificate: bytes
    key: bytes
    authority: bytes

    @classmethod
    def read(cls, certificate: Path, key: Path, authority: Path) -> Tls:
        """From files. Raises OSError."""
        return cls(certificate.read_bytes(), key.read_bytes(), authority.read_bytes())

    @classmethod
    def of(cls, settings: ServiceSettings) -> Tls | None:
        """By the settings; None where they ask for none. Raises OSError."""
        if settings.tls_cert is None or settings.tls_key is None or settings.tls_ca is None:
            return None
        return cls.read(settings.tls_cert, settings.tls_key, settings.tls_ca)

    def for_server(self) -> grpc.ServerCredentials:
        """What a server needs that lets in nobody without a certificate."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.authority,
            require_client_auth=True,
        )

    def for_channel(self) -> grpc.ChannelCredentials:
        """What a client needs; the server's certificate must name the host that was dialled."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)
