"""OIDC tokens: whose they are, by the issuer's published keys (OpenID Connect Core, Discovery)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import jwt
from hango_platform import clock
from hango_platform.errors import Unauthenticated, Unavailable
from hango_platform.rpc.caller import Role

from hango_approvals.domain.directory import Claims
from hango_approvals.settings import is_safe_url

if TYPE_CHECKING:
    from hango_approvals.settings import Settings

# Signatures by a private key only: a published key must never be good for signing.
_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_KEYS_LIVE = 600.0
_ASK_AGAIN = 10.0
_RETRY = 1.0
_TIMEOUT = 3.0
_LEEWAY = 60
_MAX_SUBJECT = 255
_NO_KEYS = "the keys of the OIDC issuer cannot be had"


def _signs(key: jwt.PyJWK) -> bool:
    return key.algorithm_name in _ALGORITHMS and key.public_key_use in (None, "sig")


class Oidc:
    """Reads tokens of one issuer. Its keys are fetched when they are needed, and remembered."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self._settings = settings
        self._http = http
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = -_KEYS_LIVE
        self._ask_at = 0.0
        self._fetching = asyncio.Lock()

    async def read(self, token: str) -> Claims:
        """What the token says. Raises Unauthenticated, or Unavailable where the issuer's keys
        cannot be had.
        """
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.oidc_audience,
                issuer=self._settings.oidc_issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
            return self._claims(claims)
        except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
            raise Unauthenticated from None

    def _claims(self, claims: dict[str, Any]) -> Claims:
        tenant, role = (
            claims[self._settings.oidc_tenant_claim],
            claims[self._settings.oidc_role_claim],
        )
        subject = claims["sub"]
        if not isinstance(tenant, str) or not isinstance(role, str) or role != role.lower():
            raise TypeError
        if not subject.isprintable() or not 0 < len(subject) <= _MAX_SUBJECT:
            raise ValueError
        email = claims.get("email")
        return Claims(
            tenant=tenant,
            role=Role.named(role),
            subject=f"{self._settings.oidc_issuer} {subject}",
            name=email if isinstance(email, str) and email else subject,
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )

    async def _key(self, kid: object) -> jwt.PyJWK:
        """The key of this id. An unknown id may be a new key's: the issuer is asked, but not for
        every forged token.
        """
        name = str(kid or "")
        old = clock.monotonic() - self._fetched_at > _KEYS_LIVE
        if old or name not in self._keys:
            async with self._fetching:
                if clock.monotonic() >= self._ask_at:
                    await self._fetch()
        if not self._keys:
            raise Unavailable(_NO_KEYS)
        return self._keys[name]

    async def _fetch(self) -> None:
        self._ask_at = clock.monotonic() + _RETRY
        try:
            discovery = await self._get(
                f"{self._settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration"
            )
            if discovery["issuer"] != self._settings.oidc_issuer:
                raise ValueError
            found = jwt.PyJWKSet.from_dict(await self._get(discovery["jwks_uri"])).keys
        except (httpx.HTTPError, jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
            if self._keys:
                return  # those that are known are better than none
            raise Unavailable(_NO_KEYS) from error
        self._keys = {k.key_id or "": k for k in found if _signs(k)}
        self._fetched_at = clock.monotonic()
        self._ask_at = self._fetched_at + _ASK_AGAIN

    async def _get(self, url: str) -> dict[str, Any]:
        if not is_safe_url(url):
            raise ValueError
        answer = await self._http.get(url, timeout=_TIMEOUT)
        found = answer.raise_for_status().json()
        if not isinstance(found, dict):
            raise TypeError
        return found
