"""Who may do what, as one table of words, and a world in which every cell of it is tried.

A cell is the reason of a refusal (as problems and gRPC statuses name it) or OK. The actors are
the users of two tenants; things in question belong to the tenant `demo`, runs to their creators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hango.common.v1 import access_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango_platform import ids

from tests.support import history

if TYPE_CHECKING:
    from tests.support.stack import Client, Stack

OK = "OK"
NO_ONE = "UNAUTHENTICATED"
FORBIDDEN = "FORBIDDEN"
NOT_FOUND = "NOT_FOUND"
NOT_APPROVER = "NOT_AN_APPROVER"


@dataclass(frozen=True)
class Actor:
    """Somebody who calls: a user, perhaps on a run that is his own, perhaps with a key that may
    only read.
    """

    name: str
    user: str
    own: bool = False
    reads_only: bool = False

    @property
    def foreign(self) -> bool:
        """Of the other tenant."""
        return self.user.startswith("b-")

    @property
    def outsider(self) -> bool:
        """May not even know of the run in question."""
        return self.foreign or self.user == "other-member"

    def __str__(self) -> str:
        return self.name


ACTORS = (
    Actor("owner", "owner"),
    Actor("owner on his own run", "owner", own=True),
    Actor("admin", "admin"),
    Actor("admin on his own run", "admin", own=True),
    Actor("admin with a key that reads", "admin", reads_only=True),
    Actor("owner with a key that reads", "owner", reads_only=True),
    Actor("member on his own run", "member", own=True),
    Actor("other member", "other-member"),
    Actor("another tenant's owner", "b-owner"),
    Actor("another tenant's admin", "b-admin"),
    Actor("another tenant's member", "b-member"),
)
STRANGERS = ("nobody", "a wrong key", "a revoked key", "a disabled user's key", "an unsigned token")


@dataclass(frozen=True)
class Row:
    """What comes of it, by actor."""

    owner: str
    admin: str
    creator: str
    other: str
    foreign: str
    foreign_member: str
    reads: bool

    def expects(self, actor: Actor) -> str:
        """The cell of this actor."""
        if actor.reads_only and not self.reads:
            return FORBIDDEN
        return {
            "owner": self.owner,
            "admin": self.admin,
            "member": self.creator,
            "other-member": self.other,
            "b-owner": self.foreign if self.owner == OK else self.owner,
            "b-admin": self.foreign if self.admin == OK else self.admin,
            "b-member": self.foreign_member,
        }[actor.user]


def _row(text: str, *, reads: bool = False) -> Row:
    words = {"ok": OK, "403": FORBIDDEN, "404": NOT_FOUND, "not-approver": NOT_APPROVER}
    owner, admin, creator, other, foreign, foreign_member = (words[w] for w in text.split())
    return Row(owner, admin, creator, other, foreign, foreign_member, reads)


#                         owner admin creator other  foreign foreign-member
READ_RUN = _row("           ok    ok    ok    404     404     404", reads=True)
CHANGE_RUN = _row("         ok    ok    ok    404     404     404")
DECIDE = _row("             ok    ok    not-approver not-approver 404 not-approver")
READ_OWN = _row("           ok    ok    ok    ok      ok      ok", reads=True)
WRITE_OWN = _row("          ok    ok    ok    ok      ok      ok")
READ_TENANT = _row("        ok    ok    ok    ok      404     404", reads=True)
MANAGE_TENANT = _row("      ok    ok    403   403     ok      403")
MANAGE_ONE = _row("         ok    ok    403   403     404     403")
READ_MANAGED = _row("       ok    ok    403   403     ok      403", reads=True)
OWNERS_ONLY = _row("        ok    403   403   403     ok      403")
NO_USER = _row("            403   403   403   403     403     403")

_GATE = {
    "name": "gate",
    "model": {
        "provider": "scripted",
        "turns": [
            {
                "tool_calls": [
                    {"id": "c1", "name": "write_file", "arguments": {"path": "/x", "content": "y"}}
                ]
            },
            {"text": "done"},
        ],
    },
    "interrupt_on": {"write_file": True},
}


def spec(name: str) -> dict[str, Any]:
    """An agent that stops at its first call."""
    return {**_GATE, "name": name}


@dataclass
class World:
    """The tenants, with a run of each user of `demo` that waits for a decision."""

    stack: Stack
    runs: dict[str, str] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)
    checkpoints: dict[str, str] = field(default_factory=dict)
    approvals: dict[str, str] = field(default_factory=dict)
    reading: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    tenant_id: str = ""

    @property
    def owner(self) -> Client:
        """Who sets the scenes."""
        return self.stack.users["owner"]

    def directory(self) -> Any:
        """The directory's stub."""
        return igrpc.DirectoryServiceStub(self.owner.approvals)

    def key(self, actor: Actor) -> str:
        """The credential of an actor."""
        return self.reading[actor.user] if actor.reads_only else self.stack.users[actor.user].key

    def creator(self, actor: Actor) -> str:
        """Whose run this actor reaches for."""
        return actor.user if actor.own else "member"

    async def run(self, actor: Actor, *, fresh: bool = False) -> str:
        """The run that an actor reaches for; a fresh one where it will be changed."""
        creator = self.creator(actor)
        return await self.start(creator) if fresh else self.runs[creator]

    async def start(self, creator: str, **more: Any) -> str:
        """A new run of this user, waiting for a decision."""
        run = await self.stack.users[creator].start("gate", **more)
        assert run.pending_approvals == 1
        return str(run.id)

    async def user(self) -> str:
        """A new member of `demo`."""
        request = ipb.CreateUserRequest(name=f"u-{ids.new_id()}", role=access_pb2.ROLE_MEMBER)
        return str((await self.owner.call(self.directory().CreateUser, request)).user.id)

    async def new_key(self, user_id: str, **more: Any) -> tuple[str, str]:
        """A new key of a user: its id and its secret."""
        request = ipb.CreateApiKeyRequest(user_id=user_id, name="k", **more)
        made = await self.owner.call(self.directory().CreateApiKey, request)
        return str(made.api_key.id), str(made.secret)

    async def agent(self) -> str:
        """The name of a new agent that only `demo` has."""
        name = f"only-{ids.new_id()}"
        await self.owner.save_agent(spec(name))
        return name

    def hides(self, actor: Actor, answer: str) -> None:
        """Nothing that an actor is told may speak of what he must not know."""
        if actor.foreign:
            assert self.tenant_id not in answer
        if actor.outsider:
            for run_id in self.runs.values():
                assert run_id not in answer

    async def untouched(self) -> None:
        """All that was refused has changed nothing: every run still waits."""
        for creator, run_id in self.runs.items():
            run = await self.stack.users[creator].run(run_id)
            assert run.pending_approvals == 1, creator


async def make_world(stack: Stack) -> World:
    """Set the scene."""
    world = World(stack)
    for user in ("owner", "b-owner"):
        await stack.users[user].save_agent(spec("gate"))
    for creator in ("owner", "admin", "member"):
        world.threads[creator] = ids.new_id()
        world.runs[creator] = await world.start(creator, thread_id=world.threads[creator])
        [approval] = await stack.users[creator].approval_list(world.runs[creator])
        world.approvals[creator] = approval.id
        checkpoints = await history.checkpoints(stack.users[creator], world.runs[creator])
        world.checkpoints[creator] = checkpoints[-1].checkpoint_id
    for user in ("owner", "admin"):
        _, world.reading[user] = await world.new_key(stack.users[user].user_id, scopes=["read"])
    tenant = await world.owner.call(world.directory().GetTenant, ipb.GetTenantRequest())
    world.tenant_id = tenant.tenant.id
    world.strangers = await _strangers(world)
    return world


async def _strangers(world: World) -> dict[str, str]:
    """Credentials that are none."""
    user_id = await world.user()
    key_id, revoked = await world.new_key(world.owner.user_id)
    await world.owner.call(
        world.directory().RevokeApiKey, ipb.RevokeApiKeyRequest(api_key_id=key_id)
    )
    _, disabled = await world.new_key(user_id)
    await world.owner.call(
        world.directory().UpdateUser, ipb.UpdateUserRequest(user_id=user_id, disabled=True)
    )
    unsigned = "eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3duZXIiLCJ0ZW5hbnQiOiJkZW1vIn0."
    made = ("", "hk_" + "x" * 40, revoked, disabled, unsigned)
    return dict(zip(STRANGERS, made, strict=True))
