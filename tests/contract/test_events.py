"""`docs/reference/asyncapi.yaml` says what is published: every kind of event, header and member."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest
import yaml
from hango.common.v1 import types_pb2
from hango.events.v1 import events_pb2
from hango_platform import ids
from hango_platform.bus import subjects
from hango_runner.domain.run import FailureReason
from jsonschema import Draft7Validator, FormatChecker

from tests.support.scripts import agent, call, turn
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Client, Stack

REFERENCE = Path(__file__).parents[2] / "docs/reference"
DOCUMENT = yaml.safe_load((REFERENCE / "asyncapi.yaml").read_text())
BODIES = ("ApprovalEvent", "RunResumeEvent", "RunFinishedEvent")
CANARY = "canary-7f3a"
# What each life publishes, in any order.
LIVES = {
    "approve": ["approval.requested", "approval.decided", "run.resume", "run.finished"],
    "edit": ["approval.requested", "approval.decided", "run.resume", "run.finished"],
    "reject": ["approval.requested", "approval.decided", "run.resume", "run.finished"],
    "respond": ["approval.requested", "approval.decided", "run.resume", "run.finished"],
    "expire": ["approval.requested", "approval.expired", "run.resume", "run.finished"],
    "cancel": ["approval.requested", "approval.withdrawn", "run.cancelled", "run.finished"],
}


@pytest.fixture(scope="module")
async def stack(postgres_server: PostgresServer, nats_server: NatsServer) -> AsyncIterator[Stack]:
    """A and R; the built-in tools are enough."""
    async with running_stack(postgres_server, nats_server) as running:
        yield running


@asynccontextmanager
async def listening(stack: Stack) -> AsyncIterator[list[Any]]:
    """All that passes by on the tenant's subjects from now on."""
    seen: list[Any] = []

    async def note(message: Any) -> None:
        seen.append(message)

    client = await nats.connect(stack.nats_url)
    try:
        await client.subscribe("hango.demo.>", cb=note)
        await client.flush()
        yield seen
    finally:
        await client.close()


async def live(stack: Stack, how: str) -> str:
    """A run that pauses and ends in this way; its id. Whatever a person or a model writes has the
    canary.
    """
    member, admin = stack.users["member"], stack.users["admin"]
    write = call("c1", "write_file", path=f"/{CANARY}.txt", content=CANARY)
    spec = agent(turn(write, text=CANARY), interrupt_on={"write_file": True}, instructions=CANARY)
    await admin.save_agent(spec)
    run = await member.start(spec["name"], CANARY)
    assert run.state == types_pb2.RUN_STATE_AWAITING_APPROVAL
    match how:
        case "cancel":
            await member.cancel(run.id)
        case "expire":
            await stack.sql(
                "approvals",
                "UPDATE suspensions SET expires_at = clock_timestamp() - interval '1 ms'"
                " WHERE run_id = $1",
                run.id,
            )
            await stack.maintain("ExpireSuspensions")
        case _:
            await decide(admin, run.id, how)
    await member.finished(run.id)
    return str(run.id)


async def decide(admin: Client, run_id: str, how: str) -> None:
    decision: dict[str, Any] = {"tool_call_id": "c1", "decision": how}
    match how:
        case "edit":
            decision["args"] = {"path": f"/{CANARY}.txt", "content": f"{CANARY} edited"}
        case "reject" | "respond":
            decision["message"] = CANARY
    await admin.decide(run_id, decision)


def of_run(seen: list[Any], run_id: str) -> list[Any]:
    return [message for message in seen if json.loads(message.data)["run_id"] == run_id]


def kind_of(message: Any) -> str:
    """`approval.decided` of `hango.demo.approval.decided.v1`."""
    return str(message.subject).removeprefix("hango.demo.").removesuffix(".v1")


def described(kind: str) -> dict[str, Any]:
    """The one message of the document that is sent at this subject."""
    channels = [
        channel
        for channel in DOCUMENT["channels"].values()
        if channel["address"] == subjects.event("{tenant}", kind)
    ]
    (channel,) = channels
    ((name, _),) = channel["messages"].items()
    message: dict[str, Any] = DOCUMENT["components"]["messages"][name]
    return message


def check(schema: dict[str, Any], value: Any) -> None:
    whole = {"allOf": [schema], "components": DOCUMENT["components"]}
    Draft7Validator(whole, format_checker=FormatChecker()).validate(value)


def properties(name: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][name]["properties"]
    return found


@pytest.mark.parametrize("how", LIVES)
async def test_a_life_is_published_as_described(stack: Stack, how: str) -> None:
    async with listening(stack) as seen:
        run_id = await live(stack, how)

        async def all_there() -> bool:
            return sorted(map(kind_of, of_run(seen, run_id))) == sorted(LIVES[how])

        await eventually(all_there, what=f"the events of {how}")
    for message in of_run(seen, run_id):
        body, headers = json.loads(message.data), dict(message.headers)
        wanted = described(kind_of(message))
        check(wanted["payload"], body)
        check(wanted["headers"], headers)
        assert set(headers) <= set(properties("Headers"))
        assert any(set(body) <= set(properties(name)) for name in BODIES)
        assert headers["Nats-Msg-Id"] == headers["ce-id"]
        assert headers["ce-subject"] == body.get("approval_id", run_id)
        assert (headers["ce-time"], headers["ce-traceparent"]) == (body["at"], body["traceparent"])
        assert CANARY not in message.data.decode() + json.dumps(headers)


async def test_the_canary_would_be_seen(stack: Stack) -> None:
    """It is in what the run stores, so that its absence above means something."""
    await live(stack, "respond")
    rows = await stack.sql("runner", "SELECT arguments_raw FROM tool_calls")
    assert all(CANARY.encode() in row["arguments_raw"] for row in rows)
    messages = await stack.sql("approvals", "SELECT decision_message FROM pending_approvals")
    assert CANARY in {row["decision_message"] for row in messages}


async def test_an_event_that_is_sent_again_is_the_same(stack: Stack) -> None:
    """At least once, under one id: subscribers see it twice, the stream keeps it once."""
    async with listening(stack) as seen:
        run_id = await live(stack, "approve")

        async def times(number: int) -> bool:
            return len(of_run(seen, run_id)) >= number * len(LIVES["approve"])

        await eventually(lambda: times(1), what="the events")
        kept = await stored(stack)
        for service in ("approvals", "runner"):
            await send_again(stack, service)
        await eventually(lambda: times(2), what="the events again")
        assert await stored(stack) == kept
    found: dict[str, list[tuple[str, bytes, dict[str, str]]]] = {}
    for message in of_run(seen, run_id):
        sent = (message.subject, message.data, dict(message.headers))
        found.setdefault(message.headers["ce-id"], []).append(sent)
    assert len(found) == len(LIVES["approve"])
    for first, *again in found.values():
        assert again
        assert all(one == first for one in again)


async def send_again(stack: Stack, service: str) -> None:
    """What is left where a relay died between sending its rows and marking them."""

    async def marked() -> bool:
        rows = await stack.sql(service, "SELECT id FROM outbox WHERE published_at IS NULL")
        return not rows

    await eventually(marked, what=f"everything of {service} is sent and marked")
    await stack.sql(
        service,
        "UPDATE outbox SET published_at = NULL, leased_until = clock_timestamp() - interval '1 s'"
        " WHERE kind = 'nats'",
    )


async def stored(stack: Stack) -> int:
    """How many messages the stream holds."""
    client = await nats.connect(stack.nats_url)
    try:
        async with asyncio.timeout(5):
            state = (await client.jetstream().stream_info(subjects.STREAM)).state
        return int(state.messages)
    finally:
        await client.close()


async def test_resume_hints_have_the_id_that_the_decide_answered(stack: Stack) -> None:
    admin, member = stack.users["admin"], stack.users["member"]
    spec = agent(
        turn(call("c1", "write_file", path="/a", content=ids.new_id())),
        interrupt_on={"write_file": True},
    )
    await admin.save_agent(spec)
    async with listening(stack) as seen:
        run = await member.start(spec["name"])
        answer = await admin.decide(run.id, {"tool_call_id": "c1", "decision": "approve"})

        async def resumed() -> list[Any]:
            return [m for m in of_run(seen, run.id) if kind_of(m) == "run.resume"]

        (hint,) = await eventually(resumed, what="the hint")
    assert hint.headers["ce-id"] == answer.resume_event_id
    await member.finished(run.id)


def test_there_is_a_channel_for_every_kind() -> None:
    addresses = [channel["address"] for channel in DOCUMENT["channels"].values()]
    assert sorted(addresses) == sorted(subjects.event("{tenant}", k) for k in subjects.EVENTS)
    assert sorted({kind for life in LIVES.values() for kind in life}) == sorted(subjects.EVENTS)
    page = (REFERENCE / "events.md").read_text()
    assert all(f"`{subjects.event('<tenant>', kind)}`" in page for kind in subjects.EVENTS)


def test_every_reference_in_the_document_leads_somewhere() -> None:
    def walk(node: Any) -> list[str]:
        if isinstance(node, list):
            return [ref for item in node for ref in walk(item)]
        if not isinstance(node, dict):
            return []
        own = [node["$ref"]] if "$ref" in node else []
        return own + [ref for item in node.values() for ref in walk(item)]

    references = walk(DOCUMENT)
    assert len(references) > 40
    for reference in references:
        target: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


@pytest.mark.parametrize("name", BODIES)
def test_the_bodies_are_those_of_the_proto(name: str) -> None:
    message = events_pb2.DESCRIPTOR.message_types_by_name[name]
    assert set(properties(name)) == {field.name for field in message.fields}


def test_the_words_are_those_of_the_code() -> None:
    states = set(types_pb2.ApprovalState.keys()) - {"APPROVAL_STATE_UNSPECIFIED"}
    assert set(properties("ApprovalEvent")["state"]["enum"]) == states
    decisions = set(types_pb2.DecisionKind.keys()) - {"DECISION_KIND_UNSPECIFIED"}
    assert set(properties("ApprovalEvent")["decision"]["enum"]) == decisions
    reasons = {reason.value for reason in FailureReason}
    assert set(properties("RunFinishedEvent")["failure_reason"]["enum"]) == reasons
