"""Making tenants, as the operator who holds the deployment's internal key."""

from dataclasses import dataclass
from typing import Any

from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango_platform.rpc.caller import Role
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tls import Tls
from hango_platform.rpc.tokens import Tokens


@dataclass(frozen=True)
class NewUser:
    """A user to be made with a tenant. `secret` is an API key that works from the start."""

    name: str
    role: Role
    secret: str


async def provision(
    addr: str, internal_key: str, tenant: str, users: list[NewUser], tls: Tls | None = None
) -> Any:
    """Make the tenant and what is missing of these users; the ProvisionTenantResponse.

    `addr` is the approvals service's. Raises HangoError.
    """
    channel = Channel(addr, Tokens(internal_key, "operator"), tls)
    try:
        stub = identity_pb2_grpc.ProvisioningServiceStub(channel.raw)
        request = identity_pb2.ProvisionTenantRequest(
            name=tenant,
            users=[
                identity_pb2.ProvisionedUser(
                    name=user.name,
                    role=user.role.value,  # type: ignore[arg-type]  # the proto's numbers
                    api_key_secret=user.secret,
                )
                for user in users
            ],
        )
        return await channel.call(stub.ProvisionTenant, request)
    finally:
        await channel.close()
