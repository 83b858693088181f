"""An OIDC issuer on loopback that signs whatever a test asks for."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "hango"


class Issuer:
    """`url` is its name; `asked` counts how often its keys were fetched, `discovered` how often it
    was asked where they are. One that is `broken` answers nothing.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.discovered = 0
        self.broken = False
        self.name_of_itself = ""
        self._keys: dict[str, rsa.RSAPrivateKey] = {}
        self.rotate("k1")

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on; the old ones are published no more."""
        self._keys = {kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def token(self, *, kid: str | None = None, **claims: Any) -> str:
        """A token that is signed with the present key; a claim of None is left out."""
        [(present, key)] = self._keys.items()
        full = {
            "iss": self.url,
            "aud": AUDIENCE,
            "iat": 1_700_000_000,
            "exp": 4_000_000_000,
            **claims,
        }
        body = {name: value for name, value in full.items() if value is not None}
        return jwt.encode(body, key, algorithm="RS256", headers={"kid": kid or present})

    def public_texts(self) -> list[bytes]:
        """The published keys, as texts that somebody might take for a secret."""
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        forms = (serialization.Encoding.PEM, serialization.Encoding.DER)
        return [k.public_key().public_bytes(f, kind) for k in self._keys.values() for f in forms]

    def answer(self, path: str) -> dict[str, Any] | None:
        """What is published."""
        match path:
            case "/.well-known/openid-configuration":
                self.discovered += 1
                if self.broken:
                    return None
                return {
                    "issuer": self.name_of_itself or self.url,
                    "jwks_uri": f"{self.url}/keys",
                }
            case "/keys":
                self.asked += 1
                public = jwt.algorithms.RSAAlgorithm.to_jwk
                return {
                    "keys": [
                        {**json.loads(public(key.public_key())), "kid": kid, "alg": "RS256"}
                        for kid, key in self._keys.items()
                    ]
                }
            case _:
                return None


@contextmanager
def serving() -> Iterator[Issuer]:
    """An issuer that can be asked."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.answer(self.path)
            self.send_response(200 if found else 404)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
