"""Mutual TLS between the services: with it everything works, and nobody else gets in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from grpc import aio
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango_approvals.settings import Settings
from hango_platform import errors
from hango_platform.rpc import status
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens
from pydantic import ValidationError

from tests.integration.security.conftest import GATED
from tests.support.certificates import Authority
from tests.support.stack import running_stack
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backend import NatsServer, PostgresServer
    from tests.support.stack import Stack

START = {"agent": "gated", "input": "go"}
APPROVE = {"decisions": [{"tool_call_id": "c1", "decision": "approve"}]}


async def caller_over(stack: Stack, credentials: Any) -> str:
    """The reason why a client with an owner's key is refused, or OK."""
    addr = stack.approvals_addr
    opened = (
        aio.insecure_channel(addr) if credentials is None else aio.secure_channel(addr, credentials)
    )
    async with opened as channel:
        stub = igrpc.DirectoryServiceStub(channel)
        metadata = (("authorization", f"Bearer {stack.users['owner'].key}"),)
        try:
            await stub.GetCaller(ipb.GetCallerRequest(), metadata=metadata, timeout=5)
        except aio.AioRpcError as error:
            return status.from_rpc_error(error).reason
    return "OK"


async def test_services_prove_themselves_to_each_other(
    postgres_server: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    ours, theirs = Authority("ours"), Authority("theirs")
    made = {name: ours.issue(name, tmp_path) for name in ("approvals", "runner", "gateway", "cli")}
    async with running_stack(postgres_server, nats_server) as stack:
        await stack.users["owner"].save_agent(GATED)
        for name in ("runner", "approvals"):
            await stack.stop(name)
        stack.overrides = {name: files for name, (files, _) in made.items()}
        await stack.start_approvals()
        await stack.start_runner()
        url = await stack.start_gateway()
        headers = {"authorization": f"Bearer {stack.users['admin'].key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as http:
            run = (await http.post("/v1/runs?wait=20s", json=START)).json()
            assert run["state"] == "awaiting_approval"
            done = await http.post(f"/v1/runs/{run['id']}/approvals", json=APPROVE)
            assert done.status_code == 200

            async def succeeded() -> bool:
                answer = await http.get(f"/v1/runs/{run['id']}")
                return bool(answer.json()["state"] == "succeeded")

            await eventually(succeeded)

        tls, forged = made["cli"][1], theirs.issue("mallory", tmp_path)[1]
        unknown = errors.Unavailable.reason
        assert await caller_over(stack, tls.for_channel()) == "OK"
        assert await caller_over(stack, None) == unknown
        no_certificate = grpc.ssl_channel_credentials(tls.authority)
        assert await caller_over(stack, no_certificate) == unknown
        another_authority = replace(forged, authority=tls.authority)
        assert await caller_over(stack, another_authority.for_channel()) == unknown
        # A server of somebody else's is not taken for ours.
        assert await caller_over(stack, replace(tls, authority=theirs.pem).for_channel()) == unknown
        channel = Channel(stack.approvals_addr, Tokens(stack.internal_key, "operator"), tls)
        stub = igrpc.ProvisioningServiceStub(channel.raw)
        with pytest.raises(errors.InvalidRequest):
            await channel.call(stub.ProvisionTenant, ipb.ProvisionTenantRequest())
        await channel.close()


@pytest.mark.parametrize("given", [{"tls_cert"}, {"tls_cert", "tls_key"}, {"tls_ca"}])
def test_half_of_it_is_refused(given: set[str], tmp_path: Path) -> None:
    files, _ = Authority("ours").issue("a", tmp_path)
    base = {"internal_key": "k" * 32, "approvals_dsn": "postgresql://x/y"}
    assert Settings.model_validate({**base, **files}).tls_ca
    with pytest.raises(ValidationError):
        Settings.model_validate({**base, **{n: f for n, f in files.items() if n in given}})
    with pytest.raises(ValidationError):
        Settings.model_validate({**base, **files, "tls_key": tmp_path / "none"})
