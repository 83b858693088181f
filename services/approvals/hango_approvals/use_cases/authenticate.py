"""Whose credential this is: an API key's, or an OIDC token's."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.errors import InvalidRequest, OutcomeUnknown, Unauthenticated, Unavailable
from hango_platform.rpc.caller import Principal

from hango_approvals.domain.audit import Entry, Target
from hango_approvals.domain.directory import check_name

if TYPE_CHECKING:
    from datetime import datetime

    from hango_approvals.domain.directory import Claims
    from hango_approvals.oidc import Oidc
    from hango_approvals.postgres.directory import Federated
    from hango_approvals.postgres.store import Store, Work

log = logging.getLogger(__name__)

_FLUSH_SECONDS = 5.0
_DOTS_OF_A_TOKEN = 2


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Whose a credential is, and when it ends by itself."""

    principal: Principal
    expires_at: datetime | None


class Authenticate:
    """Resolves credentials. That a key was used is noted later, and at most once a minute."""

    def __init__(self, store: Store, oidc: Oidc | None) -> None:
        self._store = store
        self._oidc = oidc
        self._seen: set[str] = set()

    async def __call__(self, credential: str) -> Authenticated:
        """The credential's user. Raises Unauthenticated for one that is unknown, revoked, expired
        or a disabled user's, without a difference; Unavailable.
        """
        if self._oidc is not None and credential.count(".") == _DOTS_OF_A_TOKEN:
            claims = await self._oidc.read(credential)
            async with self._store.system() as work:
                return Authenticated(await _user_of(work, claims), claims.expires_at)
        async with self._store.system() as work:
            found = await work.directory.credential(credential)
        if found is None:
            raise Unauthenticated
        if found.unseen:
            self._seen.add(found.key_id)
        return Authenticated(found.principal, found.expires_at)

    async def note_uses(self) -> None:
        """Write down the uses of keys, for ever."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write down the uses so far."""
        seen, self._seen = self._seen, set()
        if not seen:
            return
        try:
            async with self._store.system() as work:
                await work.directory.touch(sorted(seen))
        except (Unavailable, OutcomeUnknown):
            log.warning("uses of keys were not noted", extra={"keys": len(seen)})


async def _user_of(work: Work, claims: Claims) -> Principal:
    """The user of a token: added when first seen, given the role that the token says.

    The issuer is the authority on its users; that one is disabled here is ours to say.
    """
    found = await work.directory.federated(claims.tenant, claims.subject)
    if found is None:
        raise Unauthenticated
    if found.user is None:
        found = await _add(work, found, claims)
    user = found.user
    if user is None or user.disabled:
        raise Unauthenticated
    if user.role is not claims.role:
        await work.directory.set_role(found.tenant_id, user.id, claims.role)
        detail = {"role": claims.role.name.lower()}
        entry = Entry("user.update", Target.USER, user.id, detail=detail)
        await work.audit.append(found.tenant_id, [entry])
    return Principal(
        found.tenant_id,
        claims.tenant,
        user.id,
        claims.role,
        user.name,
        require_second_party=found.require_second_party,
    )


async def _add(work: Work, tenant: Federated, claims: Claims) -> Federated:
    for name in (_name(claims), claims.subject.rpartition(" ")[2]):
        user = await work.directory.add_federated(
            tenant.tenant_id, name, claims.role, claims.subject
        )
        if user is not None:
            detail = {"name": user.name, "role": user.role.name.lower()}
            entry = Entry("user.create", Target.USER, user.id, detail=detail)
            await work.audit.append(tenant.tenant_id, [entry])
            break
    # Where nothing was added, the same user's other request was faster, or both names are taken.
    return await work.directory.federated(claims.tenant, claims.subject) or tenant


def _name(claims: Claims) -> str:
    try:
        return check_name(claims.name)
    except InvalidRequest:
        return claims.subject.rpartition(" ")[2]
