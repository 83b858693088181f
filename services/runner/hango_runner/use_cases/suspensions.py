"""From the pause to the resume: S1 and T2b, then T3, T4 or T4w with the verdict pulled from A."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hango_platform import faults
from hango_platform.errors import HangoError, OutcomeUnknown, Unavailable

from hango_runner.domain.verdict import VerdictState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_runner.domain.verdict import Verdict
    from hango_runner.ports import Approvals, SuspensionStore

log = logging.getLogger(__name__)

_BULK = 500
_AT_ONCE = 6


class Suspensions:
    """Every way here ends in the same few transitions: a hint, the worker itself, the relay, the
    reconciler.

    A message says only which suspension to look at; what to do is A's to say, each time.
    """

    def __init__(self, store: SuspensionStore, approvals: Approvals) -> None:
        self._store = store
        self._approvals = approvals

    async def open(self, tenant_id: str, run_id: str, request: bytes) -> None:
        """S1, then T2b (or what the suspension has become since).

        Raises Unavailable or OutcomeUnknown where A does not answer: the relay or the reconciler
        comes to it later.
        """
        verdict = await self._approvals.open(request)
        if faults.ACTIVE:
            await faults.reach("after_open_call")
        if verdict.state is VerdictState.PENDING:
            await self._store.opened(tenant_id, run_id, verdict)
        else:
            # The answer to S1 says that the suspension is closed, not what was decided.
            await self.settle([(tenant_id, run_id, verdict.suspension_id)])

    async def settle(self, runs: Sequence[tuple[str, str, str]]) -> int:
        """Pull the verdicts of these (tenant, run, suspension) and act on them; how many were
        acted on.
        """
        settled = 0
        for start in range(0, len(runs), _BULK):
            part = runs[start : start + _BULK]
            found = await self._approvals.verdicts([s for _, _, s in part])
            verdicts = {v.suspension_id: v for v in found}
            settled += await self._settle_all(
                [(t, r, verdicts[s]) for t, r, s in part if s in verdicts]
            )
        return settled

    async def _settle_all(self, found: Sequence[tuple[str, str, Verdict]]) -> int:
        """A few at a time: what a run waits for must not wait for all the others."""
        few = asyncio.Semaphore(_AT_ONCE)

        async def settle(tenant_id: str, run_id: str, verdict: Verdict) -> bool:
            async with few:
                return await self._settle(tenant_id, run_id, verdict)

        ends = await asyncio.gather(*(settle(*one) for one in found), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return sum(end is True for end in ends)

    async def reconcile(self, limit: int) -> int:
        """Do what a lost message has left undone (protocol, section 7); how many runs it was."""
        repaired, after = 0, None
        while True:
            page = await self._store.awaiting(limit, after)
            if not page:
                return repaired
            after = page[-1][1]
            repaired += await self.settle([(t, r, s) for t, r, s, _ in page])
            for tenant_id, run_id, suspension_id, opened_at in page:
                if opened_at is None:
                    repaired += await self._open_again(tenant_id, run_id, suspension_id)
            if len(page) < limit:
                return repaired

    async def _open_again(self, tenant_id: str, run_id: str, suspension_id: str) -> bool:
        request = await self._store.open_request(tenant_id, run_id, suspension_id)
        if request is None:
            return False
        try:
            await self.open(tenant_id, run_id, request)
        except (Unavailable, OutcomeUnknown):
            return False
        except HangoError as error:
            # What is wrong with one must not keep the others waiting.
            log.error(
                "a suspension cannot be opened",
                extra={"run_id": run_id, "suspension_id": suspension_id, "error": error.reason},
            )
            return False
        return True

    async def _settle(self, tenant_id: str, run_id: str, verdict: Verdict) -> bool:
        match verdict.state:
            case VerdictState.PENDING:
                return False
            case VerdictState.DECIDED:
                done = await self._store.resume(tenant_id, run_id, verdict)
            case _:
                done = await self._store.end(tenant_id, run_id, verdict)
        if done:
            log.info(
                "suspension settled",
                extra={
                    "run_id": run_id,
                    "suspension_id": verdict.suspension_id,
                    "state": verdict.state,
                },
            )
        return done
