"""Managing users, keys and the tenant. Rights are read in the transaction that uses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hango_platform import clock, ids
from hango_platform.errors import (
    Conflict,
    Forbidden,
    HangoError,
    InvalidRequest,
    NotFound,
    Unauthenticated,
    Violation,
)
from hango_platform.rpc.caller import Role

from hango_approvals.domain.audit import Entry, Outcome, Target
from hango_approvals.domain.directory import KEY_PREFIX, check_name, check_scopes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from hango_platform.rpc.caller import Principal

    from hango_approvals.domain.directory import ApiKey, Tenant, User
    from hango_approvals.postgres.store import Store, Work

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class _Act:
    """What is tried, for its audit row."""

    action: str
    target_kind: Target
    target_id: str
    detail: dict[str, object]


class Directory:
    """Changes and lists what belongs to one tenant.

    Nobody gives a role above his own, or touches a user (or the keys of one) whose role is above
    his own. Refusals of these rules are audited like the acts themselves.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_user(self, name: str, role: Role, *, by: Principal) -> User:
        """Add a user. Raises InvalidRequest, Forbidden, or Conflict where the name is taken."""
        check_name(name)
        act = _Act("user.create", Target.USER, "", {"name": name, "role": role.name.lower()})

        async def create(work: Work) -> tuple[User, str]:
            await _check_right(work, by, role)
            user = await work.directory.add_user(by.tenant_id, name, role)
            if user is None:
                msg = "this name is taken"
                raise Conflict(msg)
            return user, user.id

        return await self._on_record(act, create, by)

    async def update_user(
        self, user_id: str, *, role: Role | None, disabled: bool | None, by: Principal
    ) -> User:
        """Change a user. Raises NotFound, Forbidden, or Conflict for the last enabled owner."""
        detail: dict[str, object] = {}
        if role is not None:
            detail["role"] = role.name.lower()
        if disabled is not None:
            detail["disabled"] = disabled
        act = _Act("user.update", Target.USER, user_id, detail)

        async def update(work: Work) -> tuple[User, str]:
            owners = await work.directory.lock_owners(by.tenant_id)
            user = await work.directory.lock_user(by.tenant_id, user_id)
            if user is None:
                raise NotFound
            new_role = user.role if role is None else role
            new_disabled = user.disabled if disabled is None else disabled
            await _check_right(work, by, max(user.role, new_role))
            if owners == {user.id} and (new_role is not Role.OWNER or new_disabled):
                msg = "this is the last owner"
                raise Conflict(msg)
            changed = await work.directory.change_user(
                by.tenant_id, user_id, role=new_role, disabled=new_disabled
            )
            return changed, user_id

        return await self._on_record(act, update, by)

    async def create_key(
        self,
        user_id: str,
        name: str,
        expires_at: datetime | None,
        *,
        scopes: Sequence[str],
        by: Principal,
    ) -> tuple[ApiKey, str]:
        """A new key of a user, and its secret. Raises InvalidRequest, NotFound, Forbidden."""
        check_name(name)
        read_only = check_scopes(scopes)
        if expires_at is not None and expires_at <= clock.now():
            raise InvalidRequest(violations=[Violation("/expires_at", "lies in the past")])
        secret = ids.new_secret(KEY_PREFIX)
        detail: dict[str, object] = {"user_id": user_id, "name": name, "read_only": read_only}
        act = _Act("key.create", Target.KEY, "", detail)

        async def create(work: Work) -> tuple[ApiKey, str]:
            user = await work.directory.lock_user(by.tenant_id, user_id)
            if user is None:
                raise NotFound
            await _check_right(work, by, user.role)
            key = await work.directory.add_key(
                by.tenant_id, user_id, name, secret, expires_at, read_only=read_only
            )
            if key is None:  # pragma: no cover - 256 random bits
                raise Conflict
            return key, key.id

        return await self._on_record(act, create, by), secret

    async def revoke_key(self, key_id: str, *, by: Principal) -> ApiKey:
        """End a key at once; a second time changes nothing. Raises NotFound, Forbidden."""
        act = _Act("key.revoke", Target.KEY, key_id, {})

        async def revoke(work: Work) -> tuple[ApiKey, str]:
            found = await work.directory.lock_key(by.tenant_id, key_id)
            if found is None:
                raise NotFound
            await _check_right(work, by, found[1])
            return await work.directory.revoke_key(by.tenant_id, key_id), key_id

        return await self._on_record(act, revoke, by)

    async def update_tenant(self, *, require_second_party: bool, by: Principal) -> Tenant:
        """Change what the tenant demands of its deciders. Raises Forbidden."""
        detail: dict[str, object] = {"require_second_party": require_second_party}
        act = _Act("tenant.update", Target.TENANT, by.tenant_id, detail)

        async def update(work: Work) -> tuple[Tenant, str]:
            await _check_right(work, by, Role.OWNER)
            changed = await work.directory.change_tenant(
                by.tenant_id, require_second_party=require_second_party
            )
            return changed, by.tenant_id

        return await self._on_record(act, update, by)

    async def get_tenant(self, *, by: Principal) -> Tenant:
        """The caller's tenant."""
        async with self._store.tenant(by.tenant_id) as work:
            tenant = await work.directory.tenant(by.tenant_id)
        if tenant is None:
            raise NotFound
        return tenant

    async def list_users(self, after: str | None, limit: int, *, by: Principal) -> list[User]:
        """Users, newest first."""
        async with self._store.tenant(by.tenant_id) as work:
            return await work.directory.list_users(by.tenant_id, after, limit)

    async def list_keys(self, after: str | None, limit: int, *, by: Principal) -> list[ApiKey]:
        """Keys, newest first."""
        async with self._store.tenant(by.tenant_id) as work:
            return await work.directory.list_keys(by.tenant_id, after, limit)

    async def _on_record(
        self, act: _Act, do: Callable[[Work], Awaitable[tuple[_Made, str]]], by: Principal
    ) -> _Made:
        """Do it and write it down in one transaction; a refusal is written down in another."""
        try:
            async with self._store.tenant(by.tenant_id) as work:
                made, target_id = await do(work)
                await work.audit.append(by.tenant_id, [_entry(act, target_id, Outcome.OK, by)])
            return made
        except (Forbidden, Conflict) as refusal:
            outcome = Outcome.DENIED if isinstance(refusal, Forbidden) else Outcome.ERROR
            async with self._store.tenant(by.tenant_id) as work:
                entry = _entry(act, act.target_id, outcome, by, refusal)
                await work.audit.append(by.tenant_id, [entry])
            raise


class FindApprover:
    """Tells whether somebody could decide."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, tenant_id: str, except_user_id: str) -> bool:
        """Whether anybody but this user could decide in the tenant."""
        async with self._store.tenant(tenant_id) as work:
            return await work.directory.has_approver(tenant_id, except_user_id)


async def _check_right(work: Work, by: Principal, role: Role) -> None:
    """Whether the caller, as he is now, may deal with users of this role."""
    member = await work.directory.member(by.tenant_id, by.user_id)
    if member is None or member.disabled:
        raise Unauthenticated
    if member.role < Role.ADMIN or member.role < role:
        raise Forbidden


def _entry(
    act: _Act, target_id: str, outcome: Outcome, by: Principal, refusal: HangoError | None = None
) -> Entry:
    reason = {"reason": refusal.reason} if refusal is not None else {}
    return Entry(
        action=act.action,
        target_kind=act.target_kind,
        target_id=target_id,
        actor_id=by.user_id,
        outcome=outcome,
        detail={**act.detail, **reason},
    )
