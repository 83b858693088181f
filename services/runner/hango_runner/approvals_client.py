"""The client of the approvals service."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from hango.approvals.v1 import approvals_pb2 as pb
from hango.approvals.v1 import approvals_pb2_grpc
from hango.common.v1 import types_pb2
from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable
from hango_platform.outbox.relay import Refused, Unreachable
from hango_platform.rpc.caller import Principal, Role

from hango_runner import mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_platform.outbox.outbox import OutboxRow
    from hango_platform.rpc.channel import Channel

    from hango_runner.domain.verdict import Verdict, VerdictState

_WITHDRAW_TIMEOUT = 2.0


class ApprovalsClient:
    """A, as R calls it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._suspensions = approvals_pb2_grpc.SuspensionsServiceStub(channel.raw)
        self._identity = identity_pb2_grpc.IdentityServiceStub(channel.raw)

    async def authenticate(self, credential: str) -> Principal:
        """Whose credential this is. Raises Unauthenticated, Unavailable."""
        request = identity_pb2.AuthenticateRequest(credential=credential)
        answer = await self._channel.call(self._identity.Authenticate, request, timeout=2)
        found = answer.principal
        return Principal(
            found.tenant_id, found.tenant, found.user_id, Role(found.role), found.user_name
        )

    async def open(self, request: bytes) -> Verdict:
        """S1."""
        parsed = pb.OpenSuspensionRequest.FromString(request)
        answer = await self._channel.call(self._suspensions.OpenSuspension, parsed)
        return mapping.opened(parsed.suspension_id, answer)

    async def verdicts(self, suspension_ids: Sequence[str]) -> list[Verdict]:
        """How these suspensions stand."""
        request = pb.GetVerdictsRequest(suspension_ids=suspension_ids)
        answer = await self._channel.call(self._suspensions.GetVerdicts, request)
        return [mapping.verdict(v) for v in answer.verdicts]

    async def withdraw(
        self, tenant_id: str, run_id: str, suspension_id: str, gen: int, actor_id: str
    ) -> VerdictState:
        """S4."""
        request = mapping.withdraw_request(tenant_id, run_id, suspension_id, gen, actor_id)
        answer = await self._channel.call(
            self._suspensions.WithdrawSuspension, request, timeout=_WITHDRAW_TIMEOUT
        )
        return mapping.VERDICT_STATES[answer.state]

    async def send_withdraw(self, row: OutboxRow) -> None:
        """S4, from the outbox."""
        request = pb.WithdrawSuspensionRequest.FromString(row.payload)
        await self._send(row, self._suspensions.WithdrawSuspension, request)

    async def send_report(self, row: OutboxRow) -> None:
        """S6, from the outbox."""
        told = json.loads(row.payload)
        report = pb.ExecutionReport(
            event_id=row.id,
            tenant_id=row.tenant_id,
            run_id=told["run_id"],
            approval_id=row.key,
            state=types_pb2.ExecutionState.Value(f"EXECUTION_STATE_{told['state'].upper()}"),
            traceparent=row.traceparent,
        )
        report.at.FromDatetime(datetime.fromisoformat(told["at"]))
        request = pb.ReportExecutionsRequest(reports=[report])
        await self._send(row, self._suspensions.ReportExecutions, request)

    async def send_audit(self, row: OutboxRow) -> None:
        """An act of R for the audit trail, from the outbox."""
        told = json.loads(row.payload)
        record = pb.AuditRecord(
            event_id=row.id,
            tenant_id=row.tenant_id,
            actor_id=told["actor_id"],
            action=told["action"],
            target_kind=told["target_kind"],
            target_id=told["target_id"],
            detail_json=json.dumps(told["detail"]).encode(),
            traceparent=row.traceparent,
        )
        record.at.FromDatetime(datetime.fromisoformat(told["at"]))
        request = pb.RecordAuditRequest(records=[record])
        await self._send(row, self._suspensions.RecordAudit, request)

    async def _send(self, row: OutboxRow, method: object, request: object) -> None:
        try:
            await self._channel.call(method, request)
        except (Unavailable, OutcomeUnknown) as error:
            raise Unreachable(str(error)) from error
        except HangoError as error:
            raise Refused(row, error.reason) from error
