"""A stream does not outlive the credential that opened it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango.runs.v1 import runs_pb2 as rpb
from hango.runs.v1 import runs_pb2_grpc as rgrpc
from hango_approvals import oidc
from hango_platform import clock, errors
from hango_platform.rpc import status

from tests.support.issuer import AUDIENCE, serving

if TYPE_CHECKING:
    import pytest

    from tests.integration.security.conftest import Site

# The credential ends within 2 s, is remembered for 1 s, and an idle stream looks every 2 s.
_ENDS_WITHIN = 8.0


async def short_lived(site: Site, user: str, seconds: float) -> tuple[str, str]:
    """A key of a user: its id and its secret. It ends by itself."""
    owner, ends = site.user("owner"), Timestamp()
    ends.FromDatetime(clock.now() + timedelta(seconds=seconds))
    stub = igrpc.DirectoryServiceStub(owner.approvals)
    request = ipb.CreateApiKeyRequest(
        user_id=site.user(user).user_id, name="short", expires_at=ends
    )
    made = await owner.call(stub.CreateApiKey, request)
    return made.api_key.id, made.secret


async def read_to_its_end(site: Site, path: str, key: str) -> str:
    """What a stream of events said until the server ended it."""
    async with asyncio.timeout(_ENDS_WITHIN):
        answer = await site.http.get(path, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    return answer.text


async def watched_to_its_end(site: Site, run_id: str, key: str) -> errors.HangoError:
    """The error that ends a stream over gRPC."""
    stub = rgrpc.RunsServiceStub(site.user("owner").runner)
    call = stub.WatchRunEvents(
        rpb.WatchRunEventsRequest(run_id=run_id),
        metadata=(("authorization", f"Bearer {key}"),),
        timeout=20,
    )
    try:
        async with asyncio.timeout(_ENDS_WITHIN):
            async for _ in call:
                pass
    except aio.AioRpcError as error:
        return status.from_rpc_error(error)
    finally:
        call.cancel()
    raise AssertionError("it ended as if the run were over")


async def test_streams_end_when_their_key_expires(site: Site) -> None:
    run = await site.user("member").start("gated")
    _, key = await short_lived(site, "member", 2)
    _, admin_key = await short_lived(site, "admin", 2)
    story, _, error = await asyncio.gather(
        read_to_its_end(site, f"/v1/runs/{run.id}/events", key),
        read_to_its_end(site, "/v1/events", admin_key),
        watched_to_its_end(site, run.id, key),
    )
    assert "event: run.suspended" in story
    assert "event: run.finished" not in story
    assert isinstance(error, errors.Unauthenticated)


async def test_streams_end_when_their_key_is_revoked(site: Site) -> None:
    run = await site.user("member").start("gated")
    key_id, key = await short_lived(site, "member", 600)
    path, headers = f"/v1/runs/{run.id}/events", {"authorization": f"Bearer {key}"}
    async with site.http.stream("GET", path, headers=headers) as answer:
        parts = answer.aiter_text()
        story = await anext(parts)
        watched = asyncio.create_task(watched_to_its_end(site, run.id, key))
        owner = site.user("owner")
        stub = igrpc.DirectoryServiceStub(owner.approvals)
        await owner.call(stub.RevokeApiKey, ipb.RevokeApiKeyRequest(api_key_id=key_id))
        async with asyncio.timeout(_ENDS_WITHIN):
            story += "".join([part async for part in parts])
    assert "event: run.finished" not in story
    assert isinstance(await watched, errors.Unauthenticated)


async def test_streams_end_when_their_token_expires(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await site.user("admin").start("gated")
    monkeypatch.setattr(oidc, "_LEEWAY", 0)
    with serving() as issuer:
        given: dict[str, Any] = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE}
        monkeypatch.setattr(site.stack, "overrides", {"approvals": given})
        await site.stack.stop("approvals")
        await site.stack.start_approvals()
        ends = int(clock.now().timestamp()) + 3
        token = issuer.token(sub="u", tenant="demo", role="admin", exp=ends)
        story, _, error = await asyncio.gather(
            read_to_its_end(site, f"/v1/runs/{run.id}/events", token),
            read_to_its_end(site, "/v1/events", token),
            watched_to_its_end(site, run.id, token),
        )
        assert "event: run.suspended" in story
        assert isinstance(error, errors.Unauthenticated)
