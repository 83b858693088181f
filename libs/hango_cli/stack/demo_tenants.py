"""The tenants that a stack has from the start, for trying things out."""

from collections.abc import Callable, Mapping

from hango_platform.ids import new_secret
from hango_platform.rpc.caller import Role

from hango_cli.provisioning import NewUser
from hango_cli.stack.keep import Keep

TENANT = "demo"
USERS: Mapping[str, Mapping[str, Role]] = {
    TENANT: {
        "owner": Role.OWNER,
        "admin": Role.ADMIN,
        "member": Role.MEMBER,
        "other-member": Role.MEMBER,
    },
    "demo-b": {"b-owner": Role.OWNER, "b-member": Role.MEMBER},
}


def credentials(keep: Keep) -> dict[str, str]:
    """The API key of each demo user; the same as in the last run."""
    make: Callable[[], str] = lambda: new_secret("hk")  # noqa: E731
    keys = {
        name: keep.secret(f"{tenant} {name} api key", make)
        for tenant, users in USERS.items()
        for name in users
    }
    keep.save()
    return keys


def users(tenant: str, keys: Mapping[str, str]) -> list[NewUser]:
    """The users of a demo tenant, to be provisioned."""
    return [NewUser(name, role, keys[name]) for name, role in USERS[tenant].items()]
