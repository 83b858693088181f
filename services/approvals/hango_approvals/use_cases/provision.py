"""Making tenants; for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.errors import Conflict

from hango_approvals.domain.audit import Entry, Target
from hango_approvals.domain.directory import check_name, check_secret, check_slug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.rpc.caller import Role

    from hango_approvals.domain.directory import Tenant, User
    from hango_approvals.postgres.store import Store, Work


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user to be there from the start, with a key if `secret` is not empty."""

    name: str
    role: Role
    secret: str


class ProvisionTenant:
    """Makes a tenant with its first users."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, name: str, users: Sequence[NewUser]) -> tuple[Tenant, list[User]]:
        """The tenant and these users, made where they were missing; what is there is left alone.

        Raises InvalidRequest, or Conflict where a secret is another user's.
        """
        check_slug(name)
        for i, user in enumerate(users):
            check_name(user.name, f"/users/{i}/name")
            if user.secret:
                check_secret(user.secret, f"/users/{i}/api_key_secret")
        async with self._store.system() as work:
            await work.directory.add_tenant(name)
            tenant = await work.directory.tenant_named(name)
            if tenant is None:  # pragma: no cover - it was made in this transaction
                raise LookupError(name)
            await work.audit.begin(tenant.id)
            entries: list[Entry] = []
            made = [await _provide(work, tenant, user, entries) for user in users]
            await work.audit.append(tenant.id, entries)
        return tenant, made


async def _provide(work: Work, tenant: Tenant, wanted: NewUser, entries: list[Entry]) -> User:
    user = await work.directory.add_user(tenant.id, wanted.name, wanted.role)
    if user is not None:
        detail = {"name": user.name, "role": user.role.name.lower()}
        entries.append(Entry("user.create", Target.USER, user.id, detail=detail))
    else:
        user = await work.directory.user_named(tenant.id, wanted.name)
        if user is None:  # pragma: no cover - the name is taken by nobody else
            raise LookupError(wanted.name)
    if wanted.secret:
        key = await work.directory.add_key(
            tenant.id, user.id, f"{wanted.name} (provisioned)", wanted.secret, None
        )
        if key is not None:
            key_detail = {"user_id": user.id, "name": key.name}
            entries.append(Entry("key.create", Target.KEY, key.id, detail=key_detail))
        elif await work.directory.key_holder(wanted.secret) != user.id:
            msg = "a secret is another user's key"
            raise Conflict(msg)
    return user
