"""The client of the approvals service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango.approvals.v1 import approvals_pb2 as pb
from hango.approvals.v1 import approvals_pb2_grpc
from hango.identity.v1 import identity_pb2, identity_pb2_grpc
from hango_platform import faults
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable
from hango_platform.outbox.relay import Refused, Unreachable
from hango_platform.rpc.caller import Principal

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
        return Principal.read(answer.principal)

    async def has_approver(self, tenant_id: str, except_user_id: str) -> bool:
        """Whether anybody but this user could decide. Raises Unavailable, OutcomeUnknown."""
        request = identity_pb2.FindApproverRequest(
            tenant_id=tenant_id, except_user_id=except_user_id
        )
        answer = await self._channel.call(self._identity.FindApprover, request, timeout=2)
        found: bool = answer.found
        return found

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

    async def send_reports(self, rows: Sequence[OutboxRow]) -> None:
        """S6, from the outbox. What is wrong with one is A's to skip; it takes the others."""
        request = pb.ReportExecutionsRequest(reports=map(mapping.report, rows))
        await self._send(rows[0], self._suspensions.ReportExecutions, request)

    async def send_audit(self, rows: Sequence[OutboxRow]) -> None:
        """Acts of R for the audit trail, from the outbox."""
        request = pb.RecordAuditRequest(records=map(mapping.audit_record, rows))
        await self._send(rows[0], self._suspensions.RecordAudit, request)

    async def _send(self, row: OutboxRow, method: object, request: object) -> None:
        try:
            await self._channel.call(method, request)
            if faults.ACTIVE:
                await faults.reach("after_report")
        except (Unavailable, OutcomeUnknown) as error:
            raise Unreachable(str(error)) from error
        except HangoError as error:
            raise Refused(row, error.reason) from error
