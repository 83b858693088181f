"""Users, keys and tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.common.v1 import access_pb2

from hango_gateway.mapping import values

if TYPE_CHECKING:
    from hango.identity.v1 import identity_pb2 as pb
    from hango_platform.rpc.caller import Principal

    from hango_gateway.mapping.values import Json


def user(found: pb.User) -> Json:
    """A user."""
    return {
        "id": found.id,
        "name": found.name,
        "role": values.word(access_pb2.Role, found.role),
        "disabled": found.disabled,
        "created_at": values.time(found, "created_at"),
    }


def api_key(found: pb.ApiKey) -> Json:
    """A key without its secret."""
    return {
        "id": found.id,
        "user_id": found.user_id,
        "name": found.name,
        "prefix": found.prefix,
        "created_at": values.time(found, "created_at"),
        "expires_at": values.time(found, "expires_at"),
        "revoked_at": values.time(found, "revoked_at"),
        "last_used_at": values.time(found, "last_used_at"),
        "scopes": list(found.scopes),
    }


def new_api_key(made: pb.CreateApiKeyResponse) -> Json:
    """A new key, with the secret that is shown this once."""
    return {**api_key(made.api_key), "secret": made.secret}


def tenant(found: pb.Tenant) -> Json:
    """A tenant."""
    return {
        "id": found.id,
        "name": found.name,
        "require_second_party": found.require_second_party,
        "created_at": values.time(found, "created_at"),
    }


def caller(principal: Principal) -> Json:
    """Who calls."""
    return {
        "tenant_id": principal.tenant_id,
        "tenant": principal.tenant,
        "user_id": principal.user_id,
        "user_name": principal.user_name,
        "role": principal.role.name.lower(),
    }
