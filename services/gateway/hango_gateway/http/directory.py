"""Users, API keys, the tenant, and who the caller is."""

from fastapi import APIRouter, Request, Response
from google.protobuf.timestamp_pb2 import Timestamp
from hango.common.v1 import access_pb2
from hango.identity.v1 import identity_pb2 as pb
from hango_platform.errors import InvalidRequest, Violation
from hango_platform.ids import is_id

from hango_gateway.auth import Admin, TenantOwner, User
from hango_gateway.http import answers
from hango_gateway.http.answers import Json, Owners, PageSize, PageToken, RunId
from hango_gateway.mapping import bodies, directory, models, values

router = APIRouter(prefix="/v1", tags=["directory"])


@router.get("/caller", response_model=models.Caller, **answers.described())
async def get_caller(user: User) -> Response:
    """Who the caller is."""
    return Json(directory.caller(user))


@router.post(
    "/users",
    status_code=201,
    response_model=models.User,
    **answers.described(400, 403, 409, body=bodies.CreateUser),
)
async def create_user(request: Request, owners: Owners, user: Admin) -> Response:
    """Add a user. Nobody gives a higher role than his own."""
    body = bodies.read(bodies.CreateUser, await answers.body_of(request))
    asked = pb.CreateUserRequest(name=body.name, role=values.number(access_pb2.Role, body.role))
    answer = await owners.approvals.write(owners.directory.CreateUser, asked, user)
    return Json(directory.user(answer.user), 201)


@router.get("/users", response_model=models.Page[models.User], **answers.described(400, 403))
async def list_users(
    owners: Owners, user: Admin, page_size: PageSize = 50, page_token: PageToken = ""
) -> Response:
    """Users, newest first."""
    asked = pb.ListUsersRequest(page_size=page_size, page_token=page_token)
    answer = await owners.approvals.read(owners.directory.ListUsers, asked, user)
    return answers.page(map(directory.user, answer.users), answer.next_page_token)


@router.patch(
    "/users/{user_id}",
    response_model=models.User,
    **answers.described(400, 403, 404, 409, body=bodies.UpdateUser),
)
async def update_user(request: Request, owners: Owners, user: Admin, user_id: RunId) -> Response:
    """Change a user's role, or disable or enable him."""
    body = bodies.read(bodies.UpdateUser, await answers.body_of(request))
    asked = pb.UpdateUserRequest(
        user_id=user_id,
        role=values.number(access_pb2.Role, body.role),
        disabled=body.disabled,
    )
    answer = await owners.approvals.write(owners.directory.UpdateUser, asked, user)
    return Json(directory.user(answer.user))


@router.post(
    "/api-keys",
    status_code=201,
    response_model=models.NewApiKey,
    **answers.described(400, 403, 404, body=bodies.CreateApiKey),
)
async def create_api_key(request: Request, owners: Owners, user: Admin) -> Response:
    """Make a key of a user. The secret is shown this once."""
    body = bodies.read(bodies.CreateApiKey, await answers.body_of(request))
    if not is_id(body.user_id):
        raise InvalidRequest(violations=[Violation("/user_id", "must be a UUID")])
    expires_at = None
    if body.expires_at is not None:
        expires_at = Timestamp()
        expires_at.FromDatetime(body.expires_at)
    asked = pb.CreateApiKeyRequest(
        user_id=body.user_id, name=body.name, expires_at=expires_at, scopes=body.scopes
    )
    answer = await owners.approvals.write(owners.directory.CreateApiKey, asked, user)
    return Json(directory.new_api_key(answer), 201)


@router.get("/api-keys", response_model=models.Page[models.ApiKey], **answers.described(400, 403))
async def list_api_keys(
    owners: Owners, user: Admin, page_size: PageSize = 50, page_token: PageToken = ""
) -> Response:
    """Keys without their secrets, newest first."""
    asked = pb.ListApiKeysRequest(page_size=page_size, page_token=page_token)
    answer = await owners.approvals.read(owners.directory.ListApiKeys, asked, user)
    return answers.page(map(directory.api_key, answer.api_keys), answer.next_page_token)


@router.delete("/api-keys/{key_id}", status_code=204, **answers.described(400, 403, 404))
async def revoke_api_key(owners: Owners, user: Admin, key_id: RunId) -> Response:
    """End a key; it works for at most one second more."""
    asked = pb.RevokeApiKeyRequest(api_key_id=key_id)
    await owners.approvals.write(owners.directory.RevokeApiKey, asked, user)
    return Response(status_code=204)


@router.get("/tenant", response_model=models.Tenant, **answers.described())
async def get_tenant(owners: Owners, user: User) -> Response:
    """The caller's tenant."""
    answer = await owners.approvals.read(owners.directory.GetTenant, pb.GetTenantRequest(), user)
    return Json(directory.tenant(answer.tenant))


@router.patch(
    "/tenant",
    response_model=models.Tenant,
    **answers.described(400, 403, body=bodies.UpdateTenant),
)
async def update_tenant(request: Request, owners: Owners, user: TenantOwner) -> Response:
    """Change what the tenant demands of its deciders."""
    body = bodies.read(bodies.UpdateTenant, await answers.body_of(request))
    asked = pb.UpdateTenantRequest(require_second_party=body.require_second_party)
    answer = await owners.approvals.write(owners.directory.UpdateTenant, asked, user)
    return Json(directory.tenant(answer.tenant))
