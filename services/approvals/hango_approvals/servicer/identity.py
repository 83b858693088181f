"""Credentials, people, keys and tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hango.identity.v1 import identity_pb2 as pb
from hango.identity.v1 import identity_pb2_grpc as grpc_pb
from hango_platform.rpc import caller, paging

from hango_approvals.mapping import directory as mapping
from hango_approvals.mapping import values
from hango_approvals.use_cases.provision import NewUser

if TYPE_CHECKING:
    from hango_approvals.use_cases.authenticate import Authenticate
    from hango_approvals.use_cases.directory import Directory, FindApprover
    from hango_approvals.use_cases.provision import ProvisionTenant


class IdentityServicer(grpc_pb.IdentityServiceServicer):
    """`hango.identity.v1.IdentityService`."""

    def __init__(self, authenticate: Authenticate, find_approver: FindApprover) -> None:
        self._authenticate = authenticate
        self._find_approver = find_approver

    async def Authenticate(
        self, request: pb.AuthenticateRequest, _context: Any
    ) -> pb.AuthenticateResponse:
        """See the proto."""
        found = await self._authenticate(request.credential)
        return pb.AuthenticateResponse(
            principal=mapping.principal(found.principal),
            expires_at=values.time_to_proto(found.expires_at),
        )

    async def FindApprover(
        self, request: pb.FindApproverRequest, _context: Any
    ) -> pb.FindApproverResponse:
        """See the proto."""
        found = await self._find_approver(
            values.required_id(request.tenant_id, "/tenant_id"),
            values.required_id(request.except_user_id, "/except_user_id"),
        )
        return pb.FindApproverResponse(found=found)


class DirectoryServicer(grpc_pb.DirectoryServiceServicer):
    """`hango.identity.v1.DirectoryService`."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def GetCaller(self, _request: pb.GetCallerRequest, _context: Any) -> pb.GetCallerResponse:
        """See the proto."""
        return pb.GetCallerResponse(principal=mapping.principal(caller.principal()))

    async def CreateUser(
        self, request: pb.CreateUserRequest, _context: Any
    ) -> pb.CreateUserResponse:
        """See the proto."""
        role = values.role_from_proto(request.role)
        made = await self._directory.create_user(request.name, role, by=caller.principal())
        return pb.CreateUserResponse(user=mapping.user(made))

    async def ListUsers(self, request: pb.ListUsersRequest, _context: Any) -> pb.ListUsersResponse:
        """See the proto."""
        size = paging.page_size(request.page_size)
        after = values.id_from_token(request.page_token)
        found = await self._directory.list_users(after, size + 1, by=caller.principal())
        return pb.ListUsersResponse(
            users=[mapping.user(u) for u in found[:size]],
            next_page_token=paging.to_token(found[size - 1].id) if len(found) > size else "",
        )

    async def UpdateUser(
        self, request: pb.UpdateUserRequest, _context: Any
    ) -> pb.UpdateUserResponse:
        """See the proto."""
        changed = await self._directory.update_user(
            values.required_id(request.user_id, "/user_id"),
            role=values.role_from_proto(request.role) if request.role else None,
            disabled=request.disabled if request.HasField("disabled") else None,
            by=caller.principal(),
        )
        return pb.UpdateUserResponse(user=mapping.user(changed))

    async def CreateApiKey(
        self, request: pb.CreateApiKeyRequest, _context: Any
    ) -> pb.CreateApiKeyResponse:
        """See the proto."""
        expires_at = (
            values.time_from_proto(request.expires_at) if request.HasField("expires_at") else None
        )
        key, secret = await self._directory.create_key(
            values.required_id(request.user_id, "/user_id"),
            request.name,
            expires_at,
            scopes=request.scopes,
            by=caller.principal(),
        )
        return pb.CreateApiKeyResponse(api_key=mapping.api_key(key), secret=secret)

    async def ListApiKeys(
        self, request: pb.ListApiKeysRequest, _context: Any
    ) -> pb.ListApiKeysResponse:
        """See the proto."""
        size = paging.page_size(request.page_size)
        after = values.id_from_token(request.page_token)
        found = await self._directory.list_keys(after, size + 1, by=caller.principal())
        return pb.ListApiKeysResponse(
            api_keys=[mapping.api_key(k) for k in found[:size]],
            next_page_token=paging.to_token(found[size - 1].id) if len(found) > size else "",
        )

    async def RevokeApiKey(
        self, request: pb.RevokeApiKeyRequest, _context: Any
    ) -> pb.RevokeApiKeyResponse:
        """See the proto."""
        key_id = values.required_id(request.api_key_id, "/api_key_id")
        key = await self._directory.revoke_key(key_id, by=caller.principal())
        return pb.RevokeApiKeyResponse(api_key=mapping.api_key(key))

    async def GetTenant(self, _request: pb.GetTenantRequest, _context: Any) -> pb.GetTenantResponse:
        """See the proto."""
        found = await self._directory.get_tenant(by=caller.principal())
        return pb.GetTenantResponse(tenant=mapping.tenant(found))

    async def UpdateTenant(
        self, request: pb.UpdateTenantRequest, _context: Any
    ) -> pb.UpdateTenantResponse:
        """See the proto."""
        if not request.HasField("require_second_party"):
            found = await self._directory.get_tenant(by=caller.principal())
        else:
            found = await self._directory.update_tenant(
                require_second_party=request.require_second_party, by=caller.principal()
            )
        return pb.UpdateTenantResponse(tenant=mapping.tenant(found))


class ProvisioningServicer(grpc_pb.ProvisioningServiceServicer):
    """`hango.identity.v1.ProvisioningService`."""

    def __init__(self, provision: ProvisionTenant) -> None:
        self._provision = provision

    async def ProvisionTenant(
        self, request: pb.ProvisionTenantRequest, _context: Any
    ) -> pb.ProvisionTenantResponse:
        """See the proto."""
        users = [
            NewUser(u.name, values.role_from_proto(u.role, f"/users/{i}/role"), u.api_key_secret)
            for i, u in enumerate(request.users)
        ]
        tenant, made = await self._provision(request.name, users)
        return pb.ProvisionTenantResponse(
            tenant=mapping.tenant(tenant), users=[mapping.user(u) for u in made]
        )
