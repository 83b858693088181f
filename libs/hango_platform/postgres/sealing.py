"""Values of tool calls at rest: sealed with a key of their tenant, which can be erased.

A query says in its comments what is sealed (`-- seals: $14 $19`, or `-- seals json: $6` where the
column holds JSON) and which of its columns are opened (`-- opens: arguments_raw input`, or
`-- opens inside: outcomes` where the statement has made a JSON text of them). Nothing else knows of
it: a transaction seals on the way in and opens on the way out.

A sealed value is ASCII text, so that it goes into `bytea`, `text` and `json` alike: base64 of
tenant, nonce and AES-256-GCM ciphertext behind a mark. What bears no mark was stored before sealing
was turned on, and is left as it is.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hango_platform import clock, ids
from hango_platform.postgres.queries import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import SecretStr

SQL = load(__package__)
ERASED = b'{"erased":true}'
"""What takes the place of a value whose key is no more."""

_TEXT, _JSON = "hangot1:", "hangoj1:"
# Tenant, nonce and tag alone are 44 bytes.
_ANY = re.compile(r'"?hango([tj])1:((?:[\w-]{4}){14,}(?:[\w-]{2}==|[\w-]{3}=)?)\."?')
_ID, _NONCE = 16, 12
_KEYS_LIVE = 60.0

Key = AESGCM | None


class Sealing:
    """The keys of one database: each tenant's is made when it is first needed, stored under the
    master key in `tenant_keys`, and remembered for a minute.
    """

    def __init__(self, master: bytes) -> None:
        self._master = AESGCM(master)
        self._known: dict[str, tuple[float, Key]] = {}

    @classmethod
    def of(cls, master: SecretStr | None) -> Sealing | None:
        """By the setting; None where nothing is to be sealed."""
        return None if master is None else cls(bytes.fromhex(master.get_secret_value()))

    async def key(self, connection: Any, tenant_id: str, *, make: bool) -> Key:
        """A tenant's key; None where it has none (any more)."""
        kept = self._known.get(tenant_id)
        if kept is not None and clock.monotonic() < kept[0] and not (make and kept[1] is None):
            return kept[1]
        wrapped = await connection.fetchval(SQL.read_tenant_key.sql, tenant_id)
        if wrapped is None and make:
            nonce, fresh = ids.new_bytes(_NONCE), ids.new_bytes(32)
            sealed = nonce + self._master.encrypt(nonce, fresh, tenant_id.encode())
            await connection.execute(SQL.add_tenant_key.sql, tenant_id, sealed)
            # Ours, or that of whoever was first. Not remembered: this may all be undone yet.
            return self._unwrap(
                await connection.fetchval(SQL.read_tenant_key.sql, tenant_id), tenant_id
            )
        key = None if wrapped is None else self._unwrap(wrapped, tenant_id)
        self._known[tenant_id] = (clock.monotonic() + _KEYS_LIVE, key)
        return key

    def _unwrap(self, wrapped: bytes, tenant_id: str) -> AESGCM:
        nonce, sealed = wrapped[:_NONCE], wrapped[_NONCE:]
        return AESGCM(self._master.decrypt(nonce, sealed, tenant_id.encode()))


def seal(value: Any, key: AESGCM, tenant_id: str, *, as_json: bool) -> Any:
    """A value, or each of a list, sealed; None stays None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [seal(v, key, tenant_id, as_json=as_json) for v in value]
    plain = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
    tenant, nonce = uuid.UUID(tenant_id).bytes, ids.new_bytes(_NONCE)
    sealed = base64.urlsafe_b64encode(tenant + nonce + key.encrypt(nonce, plain, tenant)).decode()
    text = f'"{_JSON}{sealed}."' if as_json else f"{_TEXT}{sealed}."
    return text if isinstance(value, str) else text.encode()


def tenants(values: Iterable[Any]) -> set[str]:
    """Whose keys are needed to open these."""
    found = set()
    for value in values:
        if isinstance(value, (list, tuple)):
            found |= tenants(value)
        elif isinstance(value, (str, bytes)):
            found |= {str(_tenant(m[2])) for m in _ANY.finditer(_text(value))}
    return found


def opened(value: Any, keys: dict[str, Key], *, inside: bool = False) -> Any:
    """A value, or each of a list, as it was before it was sealed; with `inside` a JSON text whose
    parts were sealed.
    """
    if isinstance(value, (list, tuple)):
        return [opened(v, keys, inside=inside) for v in value]
    if not isinstance(value, (str, bytes)):
        return value
    if inside:
        return _ANY.sub(lambda m: _part(m, keys), _text(value))
    if (match := _ANY.fullmatch(_text(value))) is None:
        return value
    plain = _plain(match[2], keys)
    plain = ERASED if plain is None else plain
    return plain if isinstance(value, bytes) else plain.decode("utf-8", "surrogatepass")


def _part(match: re.Match[str], keys: dict[str, Key]) -> str:
    """A string of a JSON text that is a sealed value, opened; any other stays."""
    plain = _plain(match[2], keys) if match[0][0] == match[0][-1] == '"' else None
    if plain is None:
        return match[0]
    text = plain.decode("utf-8", "surrogatepass")
    return text if match[1] == "j" else json.dumps(text)


def _plain(sealed: str, keys: dict[str, Key]) -> bytes | None:
    """None where the key is no more, or was never one of ours."""
    raw, tenant = base64.urlsafe_b64decode(sealed), _tenant(sealed)
    key, nonce = keys.get(str(tenant)), raw[_ID : _ID + _NONCE]
    try:
        return None if key is None else key.decrypt(nonce, raw[_ID + _NONCE :], tenant.bytes)
    except InvalidTag:  # of a key that was erased before the tenant's present one was made
        return None


def _tenant(sealed: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(sealed)[:_ID])


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
