"""Who calls: FastAPI dependencies. They run before a path, a query or a body is looked at."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from hango_platform.errors import READ_ONLY, Forbidden, Unauthenticated
from hango_platform.rpc.caller import Principal, Role

if TYPE_CHECKING:
    from hango_platform.rpc.credentials import CachedCredentials

_bearer = HTTPBearer(
    auto_error=False, scheme_name="bearer", description="An API key, or an OIDC token."
)


def _credential(
    given: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> str:
    if given is None:
        raise Unauthenticated
    return given.credentials


Credential = Annotated[str, Depends(_credential)]
"""What followed `Bearer `."""


async def _caller(request: Request, credential: Credential) -> Principal:
    credentials: CachedCredentials = request.app.state.credentials
    user = await credentials(credential)
    if user.read_only and request.method not in ("GET", "HEAD"):
        raise Forbidden(READ_ONLY)
    return user


User = Annotated[Principal, Depends(_caller)]
"""Any user. Raises Unauthenticated, Unavailable."""


def _at_least(role: Role) -> Callable[[Principal], Awaitable[Principal]]:
    async def check(user: User) -> Principal:
        if user.role < role:
            raise Forbidden
        return user

    return check


# The owners check roles themselves. Here it is done for the order of the answers: whoever may not
# do a thing gets 403 whatever the request says.
Admin = Annotated[Principal, Depends(_at_least(Role.ADMIN))]
"""An admin or an owner. Raises Forbidden too."""
TenantOwner = Annotated[Principal, Depends(_at_least(Role.OWNER))]
"""An owner. Raises Forbidden too."""
