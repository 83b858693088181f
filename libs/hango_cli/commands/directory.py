"""`hango users`, `hango keys`, `hango tenants`: who may do what."""

import enum
from typing import Annotated, Any

import typer

from hango_cli import output
from hango_cli.errors import Failed
from hango_cli.person import PageSize, PageToken, Session, acts

users = typer.Typer(help="Add, change and list the users of the tenant.", no_args_is_help=True)
keys = typer.Typer(help="Make, revoke and list API keys.", no_args_is_help=True)
tenants = typer.Typer(help="Make tenants, and set what they demand.", no_args_is_help=True)

_USER = ["id", "name", "role", "disabled", "created_at"]
_KEY = ["id", "user_id", "name", "prefix", "scopes", "created_at", "expires_at", "revoked_at"]
_KEY += ["last_used_at"]


class RoleName(enum.StrEnum):
    """What a user may be."""

    MEMBER = "member"
    ADMIN = "admin"
    OWNER = "owner"


UserId = Annotated[str, typer.Argument(help="The user's id.", show_default=False)]


def register(root: typer.Typer) -> None:
    """Add these commands."""
    root.add_typer(users, name="users")
    root.add_typer(keys, name="keys")
    root.add_typer(tenants, name="tenants")


@users.command("list")
@acts
def list_users(session: Session, page_size: PageSize = None, page_token: PageToken = None) -> None:
    """List users, newest first."""
    session.list("/v1/users", _USER, {"page_size": page_size, "page_token": page_token})


@users.command("create")
@acts
def create_user(
    session: Session,
    name: Annotated[str, typer.Argument(help="The name, unique in the tenant.")],
    role: Annotated[RoleName, typer.Option(help="What the user may do.")] = RoleName.MEMBER,
) -> None:
    """Add a user."""
    answer = session.client.call("POST", "/v1/users", _json({"name": name, "role": role.value}))
    session.show(answer, lambda user: output.pairs(user, _USER))


@users.command("update")
@acts
def update_user(
    session: Session,
    user_id: UserId,
    role: Annotated[RoleName | None, typer.Option(help="The new role.")] = None,
    disabled: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="Refuse or accept the user's credentials."),
    ] = None,
) -> None:
    """Change a user's role, or disable or enable the user."""
    change: dict[str, object] = {}
    if role is not None:
        change["role"] = role.value
    if disabled is not None:
        change["disabled"] = disabled
    if not change:
        message = "say what to change: --role, --disable or --enable"
        raise typer.BadParameter(message)
    answer = session.client.call("PATCH", f"/v1/users/{user_id}", _json(change))
    session.show(answer, lambda user: output.pairs(user, _USER))


@keys.command("list")
@acts
def list_keys(session: Session, page_size: PageSize = None, page_token: PageToken = None) -> None:
    """List API keys, newest first."""
    session.list("/v1/api-keys", _KEY, {"page_size": page_size, "page_token": page_token})


@keys.command("create")
@acts
def create_key(
    session: Session,
    user_id: UserId,
    name: Annotated[str, typer.Argument(help="What the key is called.")],
    expires_at: Annotated[
        str | None, typer.Option(help="When it ends, such as 2031-01-31T00:00:00Z.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="A key that changes nothing, whatever its user may.")
    ] = False,
) -> None:
    """Make an API key of a user; its secret is shown this once."""
    body: dict[str, object] = {"user_id": user_id, "name": name}
    if read_only:
        body["scopes"] = ["read"]
    if expires_at is not None:
        body["expires_at"] = expires_at
    answer = session.client.call("POST", "/v1/api-keys", _json(body))
    session.show(answer, lambda key: output.pairs(key, ["id", "secret"]))


@keys.command("revoke")
@acts
def revoke_key(
    session: Session,
    key_id: Annotated[str, typer.Argument(help="The key's id.", show_default=False)],
) -> None:
    """End an API key at once."""
    answer = session.client.call("DELETE", f"/v1/api-keys/{key_id}")
    session.show(answer, lambda _: output.line(f"revoked {key_id}"))


@tenants.command("set")
@acts
def set_tenant(
    session: Session,
    name: Annotated[str, typer.Argument(help="The tenant's name: yours.")],
    settings: Annotated[list[str], typer.Argument(help="require_second_party=true|false")],
) -> None:
    """Change what your tenant demands."""
    change = dict(_setting(text) for text in settings)
    tenant = session.client.get("/v1/tenant").data
    if tenant["name"] != name:
        message = f"your credentials are of the tenant {tenant['name']}, not of {name}"
        raise Failed(message)
    answer = session.client.call("PATCH", "/v1/tenant", _json(change))
    session.show(
        answer, lambda t: output.pairs(t, ["id", "name", "require_second_party", "created_at"])
    )


@tenants.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(help="The name: a-z, 0-9 and hyphens.")],
    internal_key: Annotated[
        str,
        typer.Option(envvar="HANGO_INTERNAL_KEY", help="The deployment's key.", show_default=False),
    ],
    approvals_addr: Annotated[
        str, typer.Option(envvar="HANGO_APPROVALS_ADDR", help="The approvals service.")
    ] = "127.0.0.1:7401",
    owner: Annotated[str, typer.Option(help="The name of its first user.")] = "owner",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a tenant and an owner with an API key, which is shown this once; for the operator."""
    import asyncio
    import json

    from hango_platform.errors import HangoError, Unavailable
    from hango_platform.ids import new_secret
    from hango_platform.rpc.caller import Role
    from hango_platform.rpc.tls import Tls

    from hango_cli.errors import Unreachable
    from hango_cli.provisioning import NewUser, provision
    from hango_cli.settings import tls_files

    user = NewUser(owner, Role.OWNER, new_secret("hk"))
    try:
        tls = Tls.read(*files) if (files := tls_files()) else None
        made = asyncio.run(provision(approvals_addr, internal_key, name, [user], tls))
    except Unavailable as error:
        message = f"{approvals_addr}: {error.detail}"
        raise Unreachable(message) from None
    except HangoError as error:
        raise Failed(error.detail) from None
    shown = {
        "id": made.tenant.id,
        "name": made.tenant.name,
        "owner_id": made.users[0].id,
        "api_key": user.secret,
    }
    if as_json:
        print(json.dumps(shown))
    else:
        output.pairs(shown, list(shown))


def _setting(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if name != "require_second_party" or value not in ("true", "false"):
        message = f"{text} is not require_second_party=true or =false"
        raise typer.BadParameter(message)
    return name, value == "true"


def _json(value: Any) -> bytes:
    from hango_cli.client import to_json

    return to_json(value)
