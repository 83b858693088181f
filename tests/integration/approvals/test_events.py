"""What is published: CloudEvents on JetStream, ids and states only."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from hango.approvals.v1 import approvals_pb2 as pb

from tests.support.approvals import Approvals, Tenant, decision, pending, running
from tests.support.backend import NatsServer
from tests.support.waiting import eventually

SECRET = "s3cret-value"
ARGUMENTS = b'{"to":"%s","amount":150}' % SECRET.encode()


@asynccontextmanager
async def subscribed(url: str, subject: str) -> AsyncIterator[list[Any]]:
    """What passes by on a subject from now on."""
    seen: list[Any] = []

    async def note(message: Any) -> None:
        seen.append(message)

    client = await nats.connect(url)
    try:
        await client.subscribe(subject, cb=note)
        await client.flush()
        yield seen
    finally:
        await client.close()


async def arrived(seen: list[Any], number: int) -> list[Any]:
    async def check() -> bool:
        return len(seen) >= number

    await eventually(check, what=f"{number} events, {len(seen)} so far")
    return seen


async def test_a_life_is_published(
    service: Approvals, tenant: Tenant, nats_server: NatsServer
) -> None:
    async with subscribed(nats_server.url, f"hango.{tenant.name}.>") as seen:
        pause = await service.open(tenant, [pending("c1", ARGUMENTS)])
        edited = ARGUMENTS.replace(b"150", b"151")
        edit = decision("c1", "edit", args_json=edited, message=SECRET)
        answer = await service.decide(tenant["admin"], pause.run_id, [edit])
        found = {m.headers["ce-type"]: m for m in await arrived(seen, 3)}
    assert set(found) == {
        "hango.approval.requested.v1",
        "hango.approval.decided.v1",
        "hango.run.resume.v1",
    }
    requested = found["hango.approval.requested.v1"]
    body = json.loads(requested.data)
    assert body["approval_id"] == pause.approval_ids[0]
    assert (body["tool_name"], body["tool_call_id"], body["agent"]) == ("pay", "c1", "bot")
    assert body["state"] == "APPROVAL_STATE_PENDING"
    assert body["traceparent"] == requested.headers["ce-traceparent"]
    decided = json.loads(found["hango.approval.decided.v1"].data)
    assert (decided["decision"], decided["decided_by"]) == (
        "DECISION_KIND_EDIT",
        tenant["admin"].user_id,
    )
    resume = found["hango.run.resume.v1"]
    assert resume.headers["ce-id"] == answer.resume_event_id
    assert json.loads(resume.data)["suspension_id"] == pause.id
    for message in seen:
        headers = message.headers
        assert headers["Nats-Msg-Id"] == headers["ce-id"]
        assert headers["ce-specversion"] == "1.0"
        assert headers["ce-source"] == "/hango/approvals"
        assert headers["content-type"] == "application/json"
        assert headers["ce-time"] == json.loads(message.data)["at"]
        assert re.fullmatch(rf"hango\.{tenant.name}\.[a-z]+\.[a-z]+\.v1", message.subject)
        assert SECRET not in str(headers) + message.data.decode()


async def test_what_was_not_sent_is_sent_when_the_bus_is_there(
    nats_server: NatsServer, dsn: str
) -> None:
    async with running(dsn, "nats://127.0.0.1:1") as without:
        tenant = await without.tenant()
        pause = await without.open(tenant, [pending()])
        await without.decide(tenant["admin"], pause.run_id, [decision()])
        request = pb.GetVerdictsRequest(suspension_ids=[pause.id])
        assert (await without.runner("GetVerdicts", request)).verdicts
    async with (
        subscribed(nats_server.url, f"hango.{tenant.name}.>") as seen,
        running(dsn, nats_server.url) as again,
    ):
        await arrived(seen, 3)

        async def marked() -> bool:
            rows = await again.rows("SELECT id FROM outbox WHERE published_at IS NULL")
            return not rows

        await eventually(marked)
    assert len({m.headers["ce-id"] for m in seen}) == 3


async def test_an_event_reaches_the_bus_at_once(
    service: Approvals, tenant: Tenant, nats_server: NatsServer
) -> None:
    async with subscribed(nats_server.url, f"hango.{tenant.name}.run.resume.v1") as seen:
        pause = await service.open(tenant, [pending()])
        await service.decide(tenant["admin"], pause.run_id, [decision()])
        async with asyncio.timeout(1):
            await arrived(seen, 1)
