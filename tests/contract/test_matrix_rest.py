"""Every route by every caller: who is let in, and what he is told. The routes come from the OpenAPI
description; one without a row here fails.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hango_platform import ids
from hango_platform.errors import Unauthenticated

from tests.contract import matrix
from tests.contract.matrix import ACTORS, FORBIDDEN, NO_ONE, OK, STRANGERS, Actor, Row, World
from tests.support.stack import running_stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.backend import NatsServer, PostgresServer


@dataclass(frozen=True)
class Ask:
    """What is put into a route."""

    path: dict[str, str] = field(default_factory=dict)
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """Who may use a route (nobody has to say who he is where there is no row), and what is sent."""

    row: Row | None
    build: Callable[[World, Actor, bool], Awaitable[Ask]]
    stream: bool = False


def _plain(ask: Ask | None = None) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Ask:
        return ask or Ask()

    return build


def _of_run(*, changes: bool = False, body: Any = None) -> Any:
    async def build(world: World, actor: Actor, done: bool) -> Ask:
        run_id = await world.run(actor, fresh=changes and (done or actor.foreign))
        return Ask({"run_id": run_id}, body)

    return build


async def _agent(world: World, actor: Actor, done: bool) -> Ask:
    return Ask({"name": await world.agent()})


async def _save(world: World, actor: Actor, done: bool) -> Ask:
    name = f"s-{ids.new_id()}"
    return Ask({"name": name}, matrix.spec(name))


async def _approval(world: World, actor: Actor, done: bool) -> Ask:
    return Ask({"approval_id": world.approvals[world.creator(actor)]})


async def _thread(world: World, actor: Actor, done: bool) -> Ask:
    return Ask({"thread_id": world.threads[world.creator(actor)]})


async def _checkpoint(world: World, actor: Actor, done: bool) -> Ask:
    creator = world.creator(actor)
    return Ask({"run_id": world.runs[creator], "checkpoint_id": world.checkpoints[creator]})


async def _fork(world: World, actor: Actor, done: bool) -> Ask:
    creator = world.creator(actor)
    return Ask({"run_id": world.runs[creator]}, {"checkpoint_id": world.checkpoints[creator]})


async def _diff(world: World, actor: Actor, done: bool) -> Ask:
    run_id = world.runs[world.creator(actor)]
    return Ask({"run_id": run_id, "other_run_id": run_id})


async def _new_user(world: World, actor: Actor, done: bool) -> Ask:
    return Ask(body={"name": f"n-{ids.new_id()}", "role": "member"})


async def _change_user(world: World, actor: Actor, done: bool) -> Ask:
    return Ask({"user_id": await world.user()}, {"disabled": True})


async def _new_key(world: World, actor: Actor, done: bool) -> Ask:
    return Ask(body={"user_id": await world.user(), "name": "k"})


async def _revoke(world: World, actor: Actor, done: bool) -> Ask:
    key_id, _ = await world.new_key(await world.user())
    return Ask({"key_id": key_id})


_APPROVE = {"decisions": [{"tool_call_id": "c1", "decision": "approve"}]}
_START = {"agent": "gate", "input": "go"}
_TENANT = {"require_second_party": False}
_OPEN = Rule(None, _plain())

RULES = {
    "PUT /v1/agents/{name}": Rule(matrix.MANAGE_TENANT, _save),
    "GET /v1/agents": Rule(matrix.READ_OWN, _plain()),
    "GET /v1/agents/{name}": Rule(matrix.READ_TENANT, _agent),
    "DELETE /v1/agents/{name}": Rule(matrix.MANAGE_ONE, _agent),
    "GET /v1/tools": Rule(matrix.READ_OWN, _plain()),
    "POST /v1/runs": Rule(matrix.WRITE_OWN, _plain(Ask(body=_START))),
    "GET /v1/runs": Rule(matrix.READ_OWN, _plain()),
    "GET /v1/runs/{run_id}": Rule(matrix.READ_RUN, _of_run()),
    "POST /v1/runs/{run_id}/cancel": Rule(matrix.CHANGE_RUN, _of_run(changes=True)),
    "GET /v1/runs/{run_id}/messages": Rule(matrix.READ_RUN, _of_run()),
    "GET /v1/runs/{run_id}/events": Rule(matrix.READ_RUN, _of_run(), stream=True),
    "GET /v1/runs/{run_id}/approvals": Rule(matrix.READ_RUN, _of_run()),
    "POST /v1/runs/{run_id}/approvals": Rule(matrix.DECIDE, _of_run(changes=True, body=_APPROVE)),
    "GET /v1/runs/{run_id}/checkpoints": Rule(matrix.READ_RUN, _of_run()),
    "GET /v1/runs/{run_id}/checkpoints/{checkpoint_id}": Rule(matrix.READ_RUN, _checkpoint),
    "POST /v1/runs/{run_id}/fork": Rule(matrix.CHANGE_RUN, _fork),
    "GET /v1/runs/{run_id}/diff/{other_run_id}": Rule(matrix.READ_RUN, _diff),
    "GET /v1/threads": Rule(matrix.READ_OWN, _plain()),
    "GET /v1/threads/{thread_id}": Rule(matrix.READ_RUN, _thread),
    "GET /v1/threads/{thread_id}/messages": Rule(matrix.READ_RUN, _thread),
    "GET /v1/approvals": Rule(matrix.READ_OWN, _plain()),
    "GET /v1/approvals/{approval_id}": Rule(matrix.READ_RUN, _approval),
    "GET /v1/events": Rule(matrix.READ_MANAGED, _plain(), stream=True),
    "GET /v1/audit": Rule(matrix.READ_MANAGED, _plain()),
    "GET /v1/audit/verify": Rule(matrix.READ_MANAGED, _plain()),
    "GET /v1/audit/export": Rule(matrix.READ_MANAGED, _plain()),
    "GET /v1/caller": Rule(matrix.READ_OWN, _plain()),
    "POST /v1/users": Rule(matrix.MANAGE_TENANT, _new_user),
    "GET /v1/users": Rule(matrix.READ_MANAGED, _plain()),
    "PATCH /v1/users/{user_id}": Rule(matrix.MANAGE_ONE, _change_user),
    "POST /v1/api-keys": Rule(matrix.MANAGE_ONE, _new_key),
    "GET /v1/api-keys": Rule(matrix.READ_MANAGED, _plain()),
    "DELETE /v1/api-keys/{key_id}": Rule(matrix.MANAGE_ONE, _revoke),
    "GET /v1/tenant": Rule(matrix.READ_OWN, _plain()),
    "PATCH /v1/tenant": Rule(matrix.OWNERS_ONLY, _plain(Ask(body=_TENANT))),
    "GET /healthz": _OPEN,
    "GET /readyz": _OPEN,
    "GET /metrics": _OPEN,
    "GET /openapi.json": _OPEN,
    "GET /docs": _OPEN,
    "GET /problems/{slug}": Rule(None, _plain(Ask({"slug": "not-found"}))),
}
PAGES = {"GET /metrics", "GET /openapi.json", "GET /docs", "GET /problems/{slug}"}
PARTS = (
    "run_id",
    "other_run_id",
    "checkpoint_id",
    "thread_id",
    "approval_id",
    "user_id",
    "key_id",
    "name",
)
GUARDED = sorted(name for name, rule in RULES.items() if rule.row is not None)
BY_ID = [
    name
    for name in GUARDED
    if RULES[name].row
    in (matrix.READ_RUN, matrix.CHANGE_RUN, matrix.DECIDE, matrix.READ_TENANT, matrix.MANAGE_ONE)
]
FOREIGN_OWNER = next(a for a in ACTORS if a.user == "b-owner")


@dataclass
class Rest:
    """The world over HTTP."""

    world: World
    http: httpx.AsyncClient

    @asynccontextmanager
    async def ask(self, name: str, ask: Ask, key: str) -> AsyncIterator[httpx.Response]:
        """The answer, its body not read yet."""
        method, _, route = name.partition(" ")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        path = route.format(**ask.path)
        content = None if ask.body is None else json.dumps(ask.body)
        async with self.http.stream(
            method, path, headers=headers, content=content, params=ask.query
        ) as answer:
            yield answer

    async def outcome(self, name: str, ask: Ask, key: str) -> tuple[str, str]:
        """The reason of the refusal or OK, and the text; of a stream its beginning."""
        async with self.ask(name, ask, key) as answer:
            if answer.is_success and RULES[name].stream:
                return OK, await anext(answer.aiter_text())
            text = (await answer.aread()).decode()
        return OK if answer.is_success else str(json.loads(text)["reason"]), text


@pytest.fixture(scope="module")
async def rest(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[Rest]:
    async with running_stack(postgres_server, nats_server) as stack:
        url = await stack.start_gateway()
        world = await matrix.make_world(stack)
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            yield Rest(world, http)
        await world.untouched()


async def test_every_route_has_a_row(rest: Rest) -> None:
    document = (await rest.http.get("/openapi.json")).json()
    routes = {
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item
    }
    # Pages are not listed: they show nothing but what they ask of these routes.
    assert routes | PAGES == RULES.keys()


@pytest.mark.parametrize("actor", ACTORS, ids=str)
@pytest.mark.parametrize("name", GUARDED)
async def test_users(rest: Rest, name: str, actor: Actor) -> None:
    rule = RULES[name]
    assert rule.row is not None
    expected = rule.row.expects(actor)
    ask = await rule.build(rest.world, actor, expected == OK)
    told, text = await rest.outcome(name, ask, rest.world.key(actor))
    assert told == expected
    rest.world.hides(actor, text)


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("name", RULES)
async def test_strangers(rest: Rest, name: str, stranger: str) -> None:
    rule = RULES[name]
    key = rest.world.strangers[stranger]
    if rule.row is None:
        told, _ = await rest.outcome(name, await rule.build(rest.world, ACTORS[0], False), key)
        assert told == OK
        return
    nothing = dict.fromkeys(PARTS, "no-such")
    told, text = await rest.outcome(name, Ask(nothing, []), key)
    assert told == NO_ONE, "before anything else is looked at"
    assert json.loads(text)["detail"] == "Credentials are missing or not valid"


@pytest.mark.parametrize("name", BY_ID)
async def test_what_is_anothers_is_not_told_from_what_is_nobodys(rest: Rest, name: str) -> None:
    ask = await RULES[name].build(rest.world, FOREIGN_OWNER, False)
    unknown = Ask({part: ids.new_id() for part in ask.path}, ask.body)
    if name == "POST /v1/api-keys":
        unknown = Ask(body={**ask.body, "user_id": ids.new_id()})
    key = rest.world.key(FOREIGN_OWNER)
    answers = []
    for one in (ask, unknown):
        async with rest.ask(name, one, key) as answer:
            body = (await answer.aread()).decode()
            for value in one.path.values():
                body = body.replace(value, "…")
            headers = {k: v for k, v in answer.headers.items() if k != "date"}
            answers.append((answer.status_code, body, headers))
    assert answers[0][0] == 404
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", GUARDED)
async def test_a_role_is_checked_before_anything_is_looked_up(rest: Rest, name: str) -> None:
    row = RULES[name].row
    assert row is not None
    if row.creator == OK:
        return
    nothing = dict.fromkeys(PARTS, ids.new_id())
    member = next(a for a in ACTORS if a.user == "member")
    told, _ = await rest.outcome(name, Ask(nothing, {}), rest.world.key(member))
    assert told == row.creator
    assert row.creator in (FORBIDDEN, matrix.NOT_APPROVER)


async def test_a_revoked_key_is_refused_everywhere_within_a_second(rest: Rest) -> None:
    world = rest.world
    key_id, secret = await world.new_key(world.owner.user_id)
    client = type(world.owner)(
        secret, world.owner.user_id, world.owner.approvals, world.owner.runner
    )
    loop = asyncio.get_running_loop()

    async def asked(what: str) -> bool:
        match what:
            case "rest":
                return (await rest.outcome("GET /v1/caller", Ask(), secret))[0] == OK
            case "approvals":
                return await _works(client.approval_list())
            case _:
                return await _works(client.runs())

    everywhere = ("rest", "approvals", "runner")
    assert all([await asked(what) for what in everywhere])
    async with rest.ask("DELETE /v1/api-keys/{key_id}", Ask({"key_id": key_id}), world.owner.key):
        revoked = loop.time()
    left, last_let_in = set(everywhere), revoked
    while left:
        for what in tuple(left):
            began = loop.time()
            if await asked(what):
                last_let_in = began
            else:
                left.discard(what)
        assert loop.time() < revoked + 5
    assert last_let_in < revoked + 1.0


async def _works(call: Awaitable[Any]) -> bool:
    try:
        await call
    except Unauthenticated:
        return False
    return True
