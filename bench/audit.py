"""The audit chain: decides a second over many tenants with the chain on, rows a second verified.

Suspensions are opened as the runner does it, so that nothing but the approvals service is measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import uvloop
from grpc import aio
from hango.approvals.v1 import approvals_pb2 as apb
from hango.approvals.v1 import approvals_pb2_grpc as agrpc
from hango.common.v1 import access_pb2, types_pb2
from hango.identity.v1 import identity_pb2 as ipb
from hango.identity.v1 import identity_pb2_grpc as igrpc
from hango_platform import ids
from hango_platform.rpc.channel import Channel
from hango_platform.rpc.tokens import Tokens

from bench.stack import running

TENANTS = 20
_CLIENTS = 40
_BATCH = 500
_RULE = json.dumps({"source": "user", "entry": "pay", "allowed_decisions": ["approve"]}).encode()


class Approvals:
    """The approvals service, as the operator, the runner and the users of many tenants."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self._addr = ready["grpc"]["approvals"]
        kept = json.loads((Path(ready["data"]) / "stack.json").read_text())
        self._key = kept["secrets"]["internal key"]
        self._runner = Channel(self._addr, Tokens(self._key, "runner"))
        self._users = aio.insecure_channel(self._addr)
        self.decisions = agrpc.ApprovalsServiceStub(self._users)
        self.audit = agrpc.AuditServiceStub(self._users)
        self._suspensions = agrpc.SuspensionsServiceStub(self._runner.raw)

    async def tenant(self, name: str) -> tuple[str, str, Any]:
        """A new tenant: its id, its admin's id, and his call metadata."""
        secret = ids.new_secret("hk")
        admin = ipb.ProvisionedUser(name="a", role=access_pb2.ROLE_ADMIN, api_key_secret=secret)
        operator = Channel(self._addr, Tokens(self._key, "operator"))
        stub = igrpc.ProvisioningServiceStub(operator.raw)
        request = ipb.ProvisionTenantRequest(name=name, users=[admin])
        made = await operator.call(stub.ProvisionTenant, request)
        await operator.close()
        return made.tenant.id, made.users[0].id, (("authorization", f"Bearer {secret}"),)

    async def open(self, tenant_id: str, user_id: str) -> str:
        """A suspension of one call; its run."""
        run_id, arguments = ids.new_id(), b'{"to":"ann","amount":150}'
        call = apb.PendingCall(
            tool_call_id="c1",
            tool_name="pay",
            kind=types_pb2.APPROVAL_KIND_TOOL_CALL,
            arguments_json=arguments,
            allowed_decisions=[types_pb2.DECISION_KIND_APPROVE],
            rule_json=_RULE,
            parameters_json=b"{}",
        )
        request = apb.OpenSuspensionRequest(
            suspension_id=ids.suspension_id(run_id, 1),
            tenant_id=tenant_id,
            run_id=run_id,
            gen=1,
            requested_by=user_id,
            agent="bench",
            agent_version=1,
            batch_sha256=hashlib.sha256(arguments).digest(),
            calls=[call],
        )
        await self._runner.call(self._suspensions.OpenSuspension, request, timeout=30)
        return run_id

    async def record(self, tenant_id: str, rows: int) -> None:
        """So many audit rows of a tenant."""
        for start in range(0, rows, _BATCH):
            records = [
                apb.AuditRecord(
                    event_id=ids.new_id(),
                    tenant_id=tenant_id,
                    action="agent.save",
                    target_kind="agent",
                    target_id=ids.new_id(),
                    detail_json=json.dumps({"name": "bench", "sha256": "a" * 64}).encode(),
                )
                for _ in range(min(_BATCH, rows - start))
            ]
            request = apb.RecordAuditRequest(records=records)
            await self._runner.call(self._suspensions.RecordAudit, request, timeout=60)

    async def close(self) -> None:
        """Hang up."""
        await self._runner.close()
        await self._users.close()


async def _decides(approvals: Approvals, number: int) -> float:
    """Decide so many suspensions, spread over the tenants; decides a second."""
    tenants = [await approvals.tenant(f"bench-{n}") for n in range(TENANTS)]
    waiting: list[tuple[str, Any]] = []

    async def opens(mine: list[tuple[str, str, Any]]) -> None:
        for tenant_id, user_id, metadata in mine:
            waiting.append((await approvals.open(tenant_id, user_id), metadata))

    wanted = [tenants[n % TENANTS] for n in range(number)]
    await asyncio.gather(*(opens(wanted[n::_CLIENTS]) for n in range(_CLIENTS)))
    decision = apb.Decision(tool_call_id="c1", decision=types_pb2.DECISION_KIND_APPROVE)

    async def client() -> None:
        while waiting:
            run_id, metadata = waiting.pop()
            request = apb.DecideApprovalsRequest(run_id=run_id, decisions=[decision])
            await approvals.decisions.DecideApprovals(request, metadata=metadata, timeout=30)

    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    seconds = time.monotonic() - began
    for _, _, metadata in tenants:
        checked = await approvals.audit.VerifyAudit(apb.VerifyAuditRequest(), metadata=metadata)
        assert checked.ok, checked
    return number / seconds


async def _verifies(approvals: Approvals, rows: int) -> list[float]:
    """Verify a chain of so many rows a few times; rows a second of each."""
    tenant_id, _, metadata = await approvals.tenant("bench-verify")
    await approvals.record(tenant_id, rows)
    rates = []
    for _ in range(3):
        began = time.monotonic()
        request = apb.VerifyAuditRequest()
        answer = await approvals.audit.VerifyAudit(request, metadata=metadata, timeout=120)
        rates.append(answer.checked / (time.monotonic() - began))
        assert answer.ok, answer
        assert answer.checked >= rows
    return rates


async def _measure(decides: int, rows: int) -> dict[str, Any]:
    with running() as ready:
        approvals = Approvals(ready)
        try:
            return {
                "decides": await _decides(approvals, decides),
                "verifies": await _verifies(approvals, rows),
            }
        finally:
            await approvals.close()


def measure(decides: int = 4000, rows: int = 100_000) -> dict[str, Any]:
    """A fresh stack with durable settings: `decides` a second, and `verifies`, rows a second."""
    return uvloop.run(_measure(decides, rows))
