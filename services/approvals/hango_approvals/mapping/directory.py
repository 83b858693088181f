"""Principals, users, keys and tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.identity.v1 import identity_pb2 as pb

from hango_approvals.mapping.values import role_to_proto, time_to_proto

if TYPE_CHECKING:
    from hango_platform.rpc.caller import Principal

    from hango_approvals.domain.directory import ApiKey, Tenant, User


def principal(found: Principal) -> pb.Principal:
    """A principal on the wire."""
    return pb.Principal(
        tenant_id=found.tenant_id,
        tenant=found.tenant,
        user_id=found.user_id,
        role=role_to_proto(found.role),
        user_name=found.user_name,
        read_only=found.read_only,
        require_second_party=found.require_second_party,
    )


def user(found: User) -> pb.User:
    """A user on the wire."""
    return pb.User(
        id=found.id,
        name=found.name,
        role=role_to_proto(found.role),
        disabled=found.disabled,
        created_at=time_to_proto(found.created_at),
    )


def api_key(found: ApiKey) -> pb.ApiKey:
    """A key on the wire."""
    return pb.ApiKey(
        id=found.id,
        user_id=found.user_id,
        name=found.name,
        prefix=found.prefix,
        created_at=time_to_proto(found.created_at),
        expires_at=time_to_proto(found.expires_at),
        revoked_at=time_to_proto(found.revoked_at),
        last_used_at=time_to_proto(found.last_used_at),
        scopes=["read" if found.read_only else "*"],
    )


def tenant(found: Tenant) -> pb.Tenant:
    """A tenant on the wire."""
    return pb.Tenant(
        id=found.id,
        name=found.name,
        require_second_party=found.require_second_party,
        created_at=time_to_proto(found.created_at),
    )
