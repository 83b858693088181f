"""Users, keys, tenants and credentials."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hango.approvals.v1 import approvals_pb2, approvals_pb2_grpc
from hango.common.v1 import access_pb2
from hango.identity.v1 import identity_pb2 as pb
from hango.identity.v1 import identity_pb2_grpc as grpc_pb
from hango_approvals.use_cases.authenticate import Authenticate
from hango_platform import errors, ids
from hango_platform.errors import HangoError

from tests.support.approvals import Approvals, Tenant

MEMBER, ADMIN, OWNER = (
    access_pb2.ROLE_MEMBER,
    access_pb2.ROLE_ADMIN,
    access_pb2.ROLE_OWNER,
)


async def authenticate(service: Approvals, credential: str) -> Any:
    request = pb.AuthenticateRequest(credential=credential)
    return await service.call("gateway", grpc_pb.IdentityServiceStub, "Authenticate", request)


async def audit(service: Approvals, tenant: Tenant, action: str) -> list[Any]:
    return await service.rows(
        "SELECT * FROM audit_events WHERE tenant_id = $1 AND action = $2 AND actor_kind = 'user' "
        "ORDER BY seq",
        tenant.id,
        action,
    )


async def user_named(
    service: Approvals, tenant: Tenant, name: str, role: access_pb2.Role.ValueType, by: str
) -> Any:
    request = pb.CreateUserRequest(name=name, role=role)
    return (await service.as_user(tenant[by], "CreateUser", request)).user


async def key_of(service: Approvals, tenant: Tenant, user_id: str, by: str, **more: Any) -> Any:
    request = pb.CreateApiKeyRequest(user_id=user_id, name="key", **more)
    return await service.as_user(tenant[by], "CreateApiKey", request)


async def test_a_key_names_its_user_here_and_as_metadata(
    service: Approvals, tenant: Tenant
) -> None:
    found = (await authenticate(service, tenant.secrets["admin"])).principal
    assert (found.user_id, found.tenant_id, found.tenant, found.role) == (
        tenant["admin"].user_id,
        tenant.id,
        tenant.name,
        ADMIN,
    )
    caller = await service.direct(
        tenant.secrets["admin"],
        grpc_pb.DirectoryServiceStub,
        "GetCaller",
        pb.GetCallerRequest(),
    )
    assert caller.principal == found


@pytest.mark.parametrize("credential", ["", "hk_unknown", "eyJ.a.b", "x\x00y", "ü" * 5000])
async def test_what_is_no_credential_is_refused(service: Approvals, credential: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        await authenticate(service, credential)


async def test_without_a_right_nothing_is_answered(service: Approvals, tenant: Tenant) -> None:
    stub, request = grpc_pb.DirectoryServiceStub, pb.GetCallerRequest()
    for secret in ("", "hk_unknown"):
        with pytest.raises(errors.Unauthenticated):
            await service.direct(secret, stub, "GetCaller", request)
    for method, wanted in (
        ("ListUsers", pb.ListUsersRequest()),
        ("CreateUser", pb.CreateUserRequest(name="x", role=MEMBER)),
        ("ListAuditEvents", approvals_pb2.ListAuditEventsRequest()),
        ("VerifyAudit", approvals_pb2.VerifyAuditRequest()),
    ):
        with pytest.raises(errors.Forbidden):
            await service.as_user(tenant["member"], method, wanted)
    with pytest.raises(errors.Forbidden):
        await service.as_user(
            tenant["admin"], "UpdateTenant", pb.UpdateTenantRequest(require_second_party=True)
        )
    # Users are no services, and services no users.
    with pytest.raises(errors.Forbidden):
        await service.direct(
            tenant.secrets["owner"],
            approvals_pb2_grpc.SuspensionsServiceStub,
            "GetVerdicts",
            approvals_pb2.GetVerdictsRequest(),
        )
    with pytest.raises(errors.Forbidden):
        await service.call(
            "runner", grpc_pb.DirectoryServiceStub, "GetCaller", pb.GetCallerRequest()
        )


async def test_a_new_user_with_a_new_key(service: Approvals, tenant: Tenant) -> None:
    user = await user_named(service, tenant, "ann", MEMBER, "admin")
    made = await key_of(service, tenant, user.id, "admin")
    assert made.secret.startswith("hk_")
    assert made.secret.startswith(made.api_key.prefix)
    assert (await authenticate(service, made.secret)).principal.user_id == user.id
    rows = await service.rows("SELECT * FROM api_keys WHERE id = $1", made.api_key.id)
    assert made.secret not in str(dict(rows[0]))
    for action in ("user.create", "key.create"):
        [row] = await audit(service, tenant, action)
        assert (str(row["actor_id"]), row["outcome"]) == (tenant["admin"].user_id, "ok")
        assert row["target_id"] in (user.id, made.api_key.id)
        assert made.secret not in row["detail"]


async def test_keys_end(service: Approvals, tenant: Tenant) -> None:
    soon = Timestamp()
    soon.FromDatetime(datetime.now(UTC) + timedelta(hours=1))
    user_id = tenant["member"].user_id
    revoked = await key_of(service, tenant, user_id, "admin")
    expired = await key_of(service, tenant, user_id, "admin", expires_at=soon)
    assert (await authenticate(service, expired.secret)).expires_at == soon
    request = pb.RevokeApiKeyRequest(api_key_id=revoked.api_key.id)
    ended = [
        (await service.as_user(tenant["admin"], "RevokeApiKey", request)).api_key for _ in range(2)
    ]
    assert ended[0].HasField("revoked_at")
    assert ended[0] == ended[1]
    await service.execute(
        "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1", expired.api_key.id
    )
    for secret in (revoked.secret, expired.secret):
        with pytest.raises(errors.Unauthenticated):
            await authenticate(service, secret)
    soon.FromDatetime(datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(errors.InvalidRequest):
        await key_of(service, tenant, user_id, "admin", expires_at=soon)


async def test_a_disabled_user_is_let_in_no_more(service: Approvals, tenant: Tenant) -> None:
    for disabled in (True, False):
        request = pb.UpdateUserRequest(user_id=tenant["member"].user_id, disabled=disabled)
        changed = (await service.as_user(tenant["admin"], "UpdateUser", request)).user
        assert (changed.disabled, changed.role) == (disabled, MEMBER)
        if disabled:
            with pytest.raises(errors.Unauthenticated):
                await authenticate(service, tenant.secrets["member"])
    assert await authenticate(service, tenant.secrets["member"])


async def test_nobody_reaches_above_himself(service: Approvals, tenant: Tenant) -> None:
    owner_id, admin = tenant["owner"].user_id, tenant["admin"]
    owners_key = await key_of(service, tenant, owner_id, "owner")
    attempts = [
        ("CreateUser", pb.CreateUserRequest(name="boss", role=OWNER)),
        ("UpdateUser", pb.UpdateUserRequest(user_id=admin.user_id, role=OWNER)),
        ("UpdateUser", pb.UpdateUserRequest(user_id=owner_id, role=MEMBER)),
        ("UpdateUser", pb.UpdateUserRequest(user_id=owner_id, disabled=True)),
        ("CreateApiKey", pb.CreateApiKeyRequest(user_id=owner_id, name="k")),
        ("RevokeApiKey", pb.RevokeApiKeyRequest(api_key_id=owners_key.api_key.id)),
    ]
    for method, request in attempts:
        with pytest.raises(errors.Forbidden):
            await service.as_user(admin, method, request)
    rows = await service.rows(
        "SELECT action FROM audit_events WHERE tenant_id = $1 AND outcome = 'denied'", tenant.id
    )
    assert len(rows) == len(attempts)
    assert await authenticate(service, owners_key.secret)


async def test_a_right_that_was_taken_away_is_not_used_any_more(
    service: Approvals, tenant: Tenant
) -> None:
    await service.execute("UPDATE users SET role = 'member' WHERE id = $1", tenant["admin"].user_id)
    with pytest.raises(errors.Forbidden):
        await user_named(service, tenant, "ann", MEMBER, "admin")


async def test_there_is_always_an_owner(service: Approvals, tenant: Tenant) -> None:
    owner = tenant["owner"]
    for request in (
        pb.UpdateUserRequest(user_id=owner.user_id, role=MEMBER),
        pb.UpdateUserRequest(user_id=owner.user_id, disabled=True),
    ):
        with pytest.raises(errors.Conflict):
            await service.as_user(owner, "UpdateUser", request)
    second = await user_named(service, tenant, "second", OWNER, "owner")
    changes = (
        pb.UpdateUserRequest(user_id=owner.user_id, role=ADMIN),
        pb.UpdateUserRequest(user_id=second.id, disabled=True),
    )

    async def change(request: pb.UpdateUserRequest) -> str:
        try:
            await service.as_user(owner, "UpdateUser", request)
        except HangoError as error:
            return error.reason
        return "ok"

    outcomes = await asyncio.gather(*map(change, changes))
    assert max(outcomes) == "ok"
    assert min(outcomes) in ("CONFLICT", "FORBIDDEN")
    rows = await service.rows(
        "SELECT id FROM users WHERE tenant_id = $1 AND role = 'owner' AND NOT disabled", tenant.id
    )
    assert len(rows) == 1


async def test_names_are_unique_and_printable(service: Approvals, tenant: Tenant) -> None:
    await user_named(service, tenant, "ann", MEMBER, "admin")
    with pytest.raises(errors.Conflict):
        await user_named(service, tenant, "ann", ADMIN, "admin")
    for name in ("", " ann", "a\nb", "x" * 129, "a\x00"):
        with pytest.raises(errors.InvalidRequest):
            await user_named(service, tenant, name, MEMBER, "admin")
    with pytest.raises(errors.InvalidRequest):
        await user_named(service, tenant, "bob", access_pb2.ROLE_UNSPECIFIED, "admin")


async def test_another_tenants_users_and_keys_are_not_found(
    service: Approvals, tenant: Tenant
) -> None:
    other = await service.tenant()
    key = (await key_of(service, other, other["member"].user_id, "owner")).api_key
    for method, request in (
        ("UpdateUser", pb.UpdateUserRequest(user_id=other["member"].user_id, role=ADMIN)),
        ("CreateApiKey", pb.CreateApiKeyRequest(user_id=other["member"].user_id, name="k")),
        ("RevokeApiKey", pb.RevokeApiKeyRequest(api_key_id=key.id)),
    ):
        with pytest.raises(errors.NotFound):
            await service.as_user(tenant["owner"], method, request)
    users = await service.as_user(tenant["owner"], "ListUsers", pb.ListUsersRequest())
    assert {u.name for u in users.users} == {"owner", "admin", "member", "other"}


async def test_lists_are_paged_newest_first(service: Approvals, tenant: Tenant) -> None:
    names, token = [], ""
    while True:
        request = pb.ListUsersRequest(page_size=3, page_token=token)
        page = await service.as_user(tenant["admin"], "ListUsers", request)
        names += [u.id for u in page.users]
        token = page.next_page_token
        if not token:
            break
    assert names == sorted(names, reverse=True)
    assert len(names) == 4
    keys = await service.as_user(tenant["admin"], "ListApiKeys", pb.ListApiKeysRequest())
    assert len(keys.api_keys) == 4
    for bad in ({"page_size": 201}, {"page_size": -1}, {"page_token": "x"}):
        for method, kind in (
            ("ListUsers", pb.ListUsersRequest),
            ("ListApiKeys", pb.ListApiKeysRequest),
        ):
            with pytest.raises(errors.InvalidRequest):
                await service.as_user(tenant["admin"], method, kind(**bad))


async def test_the_tenant_can_be_changed_by_its_owner(service: Approvals, tenant: Tenant) -> None:
    before = (await service.as_user(tenant["member"], "GetTenant", pb.GetTenantRequest())).tenant
    assert (before.name, before.require_second_party) == (tenant.name, False)
    request = pb.UpdateTenantRequest(require_second_party=True)
    after = (await service.as_user(tenant["owner"], "UpdateTenant", request)).tenant
    assert after.require_second_party
    unchanged = await service.as_user(tenant["owner"], "UpdateTenant", pb.UpdateTenantRequest())
    assert unchanged.tenant == after
    [row] = await audit(service, tenant, "tenant.update")
    assert (row["target_kind"], row["target_id"]) == ("tenant", tenant.id)


async def test_provisioning_can_be_repeated(service: Approvals, tenant: Tenant) -> None:
    async def provision(*users: pb.ProvisionedUser, name: str = tenant.name) -> Any:
        request = pb.ProvisionTenantRequest(name=name, users=users)
        stub = grpc_pb.ProvisioningServiceStub
        return await service.call("operator", stub, "ProvisionTenant", request)

    owner = pb.ProvisionedUser(name="owner", role=OWNER, api_key_secret=tenant.secrets["owner"])
    again = await provision(owner, pb.ProvisionedUser(name="new", role=MEMBER))
    assert again.tenant.id == tenant.id
    assert again.users[0].id == tenant["owner"].user_id
    assert again.users[1].name == "new"
    assert (await authenticate(service, tenant.secrets["owner"])).principal.role == OWNER
    thief = pb.ProvisionedUser(name="new", role=MEMBER, api_key_secret=tenant.secrets["owner"])
    with pytest.raises(errors.Conflict):
        await provision(thief)
    for users, name in (
        ([pb.ProvisionedUser(name="x", role=MEMBER, api_key_secret="short")], tenant.name),
        ([], "No Slug"),
    ):
        with pytest.raises(errors.InvalidRequest):
            await provision(*users, name=name)


async def test_provisioning_one_tenant_twice_at_once_makes_one(service: Approvals) -> None:
    request = pb.ProvisionTenantRequest(
        name=f"t-{ids.new_id()}",
        users=[pb.ProvisionedUser(name="owner", role=OWNER, api_key_secret=ids.new_secret("hk"))],
    )
    made = await asyncio.gather(
        *(
            service.call("operator", grpc_pb.ProvisioningServiceStub, "ProvisionTenant", request)
            for _ in range(4)
        )
    )
    assert all(m == made[0] for m in made)


async def test_the_last_use_is_noted_once_a_minute(
    service: Approvals, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances: list[Authenticate] = []
    original = Authenticate.__call__

    async def spy(self: Authenticate, secret: str) -> Any:
        instances.append(self)
        return await original(self, secret)

    monkeypatch.setattr(Authenticate, "__call__", spy)

    async def used() -> Any:
        await authenticate(service, tenant.secrets["admin"])
        await instances[0].flush()
        listed = await service.as_user(tenant["admin"], "ListApiKeys", pb.ListApiKeysRequest())
        [key] = [k for k in listed.api_keys if k.user_id == tenant["admin"].user_id]
        return key.last_used_at.ToDatetime()

    first = await used()
    assert await used() == first
    await service.execute(
        "UPDATE api_keys SET last_used_at = last_used_at - interval '2 minutes' "
        "WHERE tenant_id = $1",
        tenant.id,
    )
    assert await used() > first


async def test_a_key_may_be_one_that_only_reads(service: Approvals, tenant: Tenant) -> None:
    async def make(*scopes: str) -> pb.CreateApiKeyResponse:
        request = pb.CreateApiKeyRequest(
            user_id=tenant["owner"].user_id, name="dashboard", scopes=scopes
        )
        made: pb.CreateApiKeyResponse = await service.as_user(
            tenant["owner"], "CreateApiKey", request
        )
        return made

    assert (await make()).api_key.scopes == (await make("*")).api_key.scopes == ["*"]
    reading = await make("read")
    assert reading.api_key.scopes == ["read"]
    for wrong in (("write",), ("read", "*"), ("",)):
        with pytest.raises(errors.InvalidRequest) as refusal:
            await make(*wrong)
        assert [v.pointer for v in refusal.value.violations] == ["/scopes"]
    stub = grpc_pb.DirectoryServiceStub
    users = await service.direct(reading.secret, stub, "ListUsers", pb.ListUsersRequest())
    assert len(users.users) == 4
    request = pb.CreateUserRequest(name="x", role=access_pb2.ROLE_MEMBER)
    with pytest.raises(errors.Forbidden):
        await service.direct(reading.secret, stub, "CreateUser", request)
