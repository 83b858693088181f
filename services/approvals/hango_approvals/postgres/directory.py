"""Tenants, users and keys in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform import ids
from hango_platform.postgres.queries import load
from hango_platform.rpc.caller import Principal, Role

from hango_approvals.domain.directory import key_digest, key_prefix
from hango_approvals.postgres import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hango_platform.postgres.transaction import Transaction

    from hango_approvals.domain.directory import ApiKey, Tenant, User

SQL = load(__package__)


@dataclass(frozen=True, slots=True)
class Credential:
    """Whose a key is. `unseen` says that its last use was more than a minute ago."""

    key_id: str
    principal: Principal
    expires_at: datetime | None
    unseen: bool


@dataclass(frozen=True, slots=True)
class Federated:
    """A tenant, and the user of it that a token speaks of; None where he was never seen."""

    tenant_id: str
    require_second_party: bool
    user: User | None


@dataclass(frozen=True, slots=True)
class Member:
    """What a user may do now, and what the tenant demands."""

    role: Role
    disabled: bool
    require_second_party: bool


class Directory:
    """The statements about the directory, within one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def credential(self, secret: str) -> Credential | None:
        """Whose key this is, if it works."""
        row = await self._tx.one(SQL.find_credential, key_digest(secret))
        if row is None:
            return None
        principal = Principal(
            tenant_id=str(row["tenant_id"]),
            tenant=row["tenant"],
            user_id=str(row["user_id"]),
            role=Role.named(row["role"]),
            user_name=row["user_name"],
            read_only=row["read_only"],
            require_second_party=row["require_second_party"],
        )
        return Credential(str(row["key_id"]), principal, row["expires_at"], row["unseen"])

    async def federated(self, tenant: str, subject: str) -> Federated | None:
        """The tenant of this slug, and its user of this subject; None for an unknown tenant."""
        row = await self._tx.one(SQL.find_federated, tenant, subject)
        if row is None:
            return None
        user = rows.user(row) if row["id"] is not None else None
        return Federated(str(row["tenant_id"]), row["require_second_party"], user)

    async def add_federated(
        self, tenant_id: str, name: str, role: Role, subject: str
    ) -> User | None:
        """The new user; None where the name or the subject is taken."""
        row = await self._tx.one(
            SQL.insert_federated, ids.new_id(), tenant_id, name, role.name.lower(), subject
        )
        return rows.user(row) if row is not None else None

    async def set_role(self, tenant_id: str, user_id: str, role: Role) -> None:
        """Store the role of a user."""
        await self._tx.exec(SQL.set_role, tenant_id, user_id, role.name.lower())

    async def touch(self, key_ids: Sequence[str]) -> None:
        """Note that these keys were used just now."""
        await self._tx.exec(SQL.touch_keys, key_ids)

    async def member(self, tenant_id: str, user_id: str) -> Member | None:
        """The user as he is now."""
        row = await self._tx.one(SQL.find_member, tenant_id, user_id)
        if row is None:
            return None
        return Member(Role.named(row["role"]), row["disabled"], row["require_second_party"])

    async def has_approver(self, tenant_id: str, except_user_id: str) -> bool:
        """Whether an enabled admin or owner other than this user is there."""
        row = await self._tx.one(SQL.find_approver, tenant_id, except_user_id)
        return bool(row and row["found"])

    async def lock_owners(self, tenant_id: str) -> set[str]:
        """The ids of the owners who are not disabled; they stay so until the commit."""
        return {str(r["id"]) for r in await self._tx.many(SQL.lock_owners, tenant_id)}

    async def add_user(self, tenant_id: str, name: str, role: Role) -> User | None:
        """The new user; None where the name is taken."""
        row = await self._tx.one(SQL.insert_user, ids.new_id(), tenant_id, name, role.name.lower())
        return rows.user(row) if row is not None else None

    async def user_named(self, tenant_id: str, name: str) -> User | None:
        """The user of this name."""
        row = await self._tx.one(SQL.find_user_by_name, tenant_id, name)
        return rows.user(row) if row is not None else None

    async def lock_user(self, tenant_id: str, user_id: str) -> User | None:
        """One user, locked."""
        row = await self._tx.one(SQL.lock_user, tenant_id, user_id)
        return rows.user(row) if row is not None else None

    async def change_user(
        self, tenant_id: str, user_id: str, *, role: Role, disabled: bool
    ) -> User:
        """Store the role and the state of a locked user."""
        row = await self._tx.one(SQL.update_user, tenant_id, user_id, role.name.lower(), disabled)
        return rows.user(row)

    async def list_users(self, tenant_id: str, after: str | None, limit: int) -> list[User]:
        """Users, newest first."""
        return [rows.user(r) for r in await self._tx.many(SQL.list_users, tenant_id, after, limit)]

    async def add_key(
        self,
        tenant_id: str,
        user_id: str,
        name: str,
        secret: str,
        expires_at: datetime | None,
        *,
        read_only: bool = False,
    ) -> ApiKey | None:
        """The new key; None where the secret is somebody's already."""
        row = await self._tx.one(
            SQL.insert_key,
            ids.new_id(),
            tenant_id,
            user_id,
            name,
            key_prefix(secret),
            key_digest(secret),
            expires_at,
            read_only,
        )
        return rows.api_key(row) if row is not None else None

    async def key_holder(self, secret: str) -> str | None:
        """The user whose secret this is, whether it works or not."""
        row = await self._tx.one(SQL.key_holder, key_digest(secret))
        return str(row["user_id"]) if row is not None else None

    async def lock_key(self, tenant_id: str, key_id: str) -> tuple[ApiKey, Role] | None:
        """One key, locked, and the role of its user."""
        row = await self._tx.one(SQL.lock_key, tenant_id, key_id)
        return (rows.api_key(row), Role.named(row["role"])) if row is not None else None

    async def revoke_key(self, tenant_id: str, key_id: str) -> ApiKey:
        """End a locked key."""
        return rows.api_key(await self._tx.one(SQL.revoke_key, tenant_id, key_id))

    async def list_keys(self, tenant_id: str, after: str | None, limit: int) -> list[ApiKey]:
        """Keys, newest first."""
        return [
            rows.api_key(r) for r in await self._tx.many(SQL.list_keys, tenant_id, after, limit)
        ]

    async def tenant(self, tenant_id: str) -> Tenant | None:
        """The tenant of this id."""
        row = await self._tx.one(SQL.read_tenant, tenant_id)
        return rows.tenant(row) if row is not None else None

    async def tenant_named(self, name: str) -> Tenant | None:
        """The tenant of this slug."""
        row = await self._tx.one(SQL.find_tenant, name)
        return rows.tenant(row) if row is not None else None

    async def add_tenant(self, name: str) -> None:
        """Make a tenant; does nothing where there is one of this slug."""
        await self._tx.one(SQL.insert_tenant, ids.new_id(), name)

    async def change_tenant(self, tenant_id: str, *, require_second_party: bool) -> Tenant:
        """Store what the tenant demands."""
        return rows.tenant(await self._tx.one(SQL.update_tenant, tenant_id, require_second_party))
