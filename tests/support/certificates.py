"""An authority of a test's own, and certificates of it."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hango_platform import clock
from hango_platform.rpc.tls import Tls

if TYPE_CHECKING:
    from pathlib import Path


class Authority:
    """Signs certificates that are good for a day."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._builder(self._name, self._key).add_extension(basic, critical=True)
        self.pem = _pem(self._certificate.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, folder: Path) -> tuple[dict[str, Path], Tls]:
        """A certificate for a service on loopback, as settings and as what they are read to."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key).add_extension(names, critical=False)
        texts = {
            "tls_cert": _pem(made.sign(self._key, hashes.SHA256())),
            "tls_key": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            "tls_ca": self.pem,
        }
        files = {setting: folder / f"{name}-{setting}.pem" for setting in texts}
        for setting, text in texts.items():
            files[setting].write_bytes(text)
        return files, Tls.read(files["tls_cert"], files["tls_key"], files["tls_ca"])

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = clock.now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
