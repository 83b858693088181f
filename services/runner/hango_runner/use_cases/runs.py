"""Runs as people start, read, wait for and cancel them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hango_platform import clock, ids
from hango_platform.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    SecondPartyRequired,
    Unavailable,
    Violation,
)
from hango_policy import strict_json
from hango_policy.errors import JsonRefused

from hango_runner.domain.run import NewRun, RunState
from hango_runner.domain.verdict import VerdictState, Withdrawal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hango_platform.rpc.caller import Principal

    from hango_runner.domain.run import Idempotency, RunView
    from hango_runner.ports import Approvals, RunStore
    from hango_runner.wakes import Wakes

_MAX_INPUT_BYTES = 1024 * 1024
_MAX_METADATA_BYTES = 16 * 1024
_KEPT = 4096
_MAX_THREAD_CHARS = 128
_CONTENT_TYPES = ("text", "image_url", "file")


class Runs:
    """What users may do with runs; `wakes` tells when a run's story has grown."""

    def __init__(self, store: RunStore, approvals: Approvals, wakes: Wakes) -> None:
        self._store = store
        self._approvals = approvals
        self._wakes = wakes
        # Until when it is known that somebody else could decide.
        self._approvers: dict[tuple[str, str], float] = {}

    async def start(
        self,
        agent: str,
        given: bytes,
        metadata: bytes,
        thread_id: str | None,
        *,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes:
        """Queue a run; the first answer where this is a repeat.

        Raises InvalidRequest, NotFound, ThreadBusy, IdempotencyMismatch, IdempotencyInFlight; and
        SecondPartyRequired where nobody could decide on what this user's run asks for.
        """
        run = NewRun(
            id=ids.new_id(),
            agent=agent,
            input=checked_input(given),
            metadata=_checked_metadata(metadata),
            thread_id=_checked_thread(thread_id),
        )
        # Of a repeat nothing is asked of A.
        if by.require_second_party and (first := await self.earlier(by, repeat)) is not None:
            return first
        await self.need_approver(by)
        return await self._store.start(run, by, repeat, encode)

    async def earlier(self, by: Principal, repeat: Idempotency | None) -> bytes | None:
        """The answer to the first request with this key. Raises IdempotencyMismatch."""
        return None if repeat is None else await self._store.earlier(by, repeat)

    async def need_approver(self, by: Principal) -> None:
        """Raise SecondPartyRequired where nobody could decide on what this user's run asks for."""
        if by.require_second_party and not await self._has_approver(by):
            msg = "your tenant demands that somebody else decides, and nobody else could"
            raise SecondPartyRequired(msg)

    async def get(
        self, run_id: str, *, by: Principal, wait: float = 0, new: bool = False
    ) -> RunView:
        """The run; with `wait` (seconds) as it is once paused or over, or when the time is over.

        A `new` run's first pause is told as it came; of any other A is asked what is still
        pending. Raises NotFound.
        """
        until = clock.monotonic() + wait
        with self._wakes.listening(run_id, for_rest=True) as wake:
            while True:
                wake.clear()
                run = await self._seen(run_id, by)
                if not new:
                    run = await self._with_pending(run)
                left = until - clock.monotonic()
                if run.at_rest or left <= 0:
                    return run
                await wake.wait(min(left, 2.0))

    async def list_page(
        self,
        *,
        by: Principal,
        state: RunState | None,
        agent: str | None,
        thread_id: str | None,
        after: tuple[datetime, str] | None,
        limit: int,
    ) -> list[RunView]:
        """Runs that this user may see, newest first."""
        return await self._store.list_page(
            by, state=state, agent=agent, thread_id=thread_id, after=after, limit=limit
        )

    async def cancel(
        self,
        run_id: str,
        *,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[RunView], bytes],
    ) -> RunView | bytes:
        """T5: A is told first, so that nobody decides after this has answered.

        Raises NotFound, RunFinished.
        """
        if (earlier := await self.earlier(by, repeat)) is not None:
            return earlier
        for _ in range(5):
            run = await self._seen(run_id, by)
            withdrawal = await self._withdraw(run, by)
            done = await self._store.cancel(run_id, by, withdrawal, repeat, encode)
            if done is not None:
                return done
        msg = "the run pauses again and again while it is being cancelled; try once more"
        raise Conflict(msg)

    async def _has_approver(self, by: Principal) -> bool:
        """Asked of A at most once a second for each user who starts runs."""
        key = (by.tenant_id, by.user_id)
        now = clock.monotonic()
        if now >= self._approvers.get(key, 0.0):
            if not await self._approvals.has_approver(*key):
                return False
            if len(self._approvers) >= _KEPT:
                self._approvers.clear()
            self._approvers[key] = now + 1.0
        return True

    async def _seen(self, run_id: str, by: Principal) -> RunView:
        run = await self._store.get(run_id, by) if ids.is_id(run_id) else None
        if run is None:
            raise NotFound
        return run

    async def _with_pending(self, run: RunView) -> RunView:
        """With the number of undecided calls from A: a decided run may read as awaiting for a
        moment.
        """
        if run.state is not RunState.AWAITING_APPROVAL or run.suspension_id is None:
            return run
        try:
            verdicts = await self._approvals.verdicts([run.suspension_id])
        except (Unavailable, OutcomeUnknown):
            return run
        pending = sum(len(v.calls) for v in verdicts if v.state is VerdictState.PENDING)
        return replace(run, pending_approvals=pending)

    async def _withdraw(self, run: RunView, by: Principal) -> Withdrawal:
        if run.suspension_id is None or run.state.over:
            return Withdrawal(None, None)
        try:
            state = await self._approvals.withdraw(
                by.tenant_id, run.id, run.suspension_id, run.gen, by.user_id
            )
        except (Unavailable, OutcomeUnknown):
            return Withdrawal(run.suspension_id, None)
        return Withdrawal(run.suspension_id, state)


def checked_input(given: bytes) -> str:
    """A string or a content list, as the text it came in. Raises InvalidRequest."""
    value = _json(given, "/input", _MAX_INPUT_BYTES)
    if isinstance(value, str) or (
        isinstance(value, list) and value and all(map(_is_content, value))
    ):
        return given.decode()
    msg = "input is a text, or a list of content parts"
    raise InvalidRequest(
        msg, violations=[Violation("/input", 'must be a text or a list of {"type", …} objects')]
    )


def _is_content(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") in _CONTENT_TYPES


def _checked_metadata(metadata: bytes) -> str:
    if not metadata:
        return "{}"
    if not isinstance(_json(metadata, "/metadata", _MAX_METADATA_BYTES), dict):
        msg = "metadata is an object"
        raise InvalidRequest(msg, violations=[Violation("/metadata", "must be an object")])
    return metadata.decode()


def _checked_thread(thread_id: str | None) -> str | None:
    if thread_id is not None and not (
        0 < len(thread_id) <= _MAX_THREAD_CHARS and thread_id.isprintable()
    ):
        msg = "thread_id is a text of at most 128 printable characters"
        raise InvalidRequest(
            msg, violations=[Violation("/thread_id", "must be 1 to 128 printable characters")]
        )
    return thread_id


def _json(raw: bytes, pointer: str, max_bytes: int) -> object:
    try:
        return strict_json.parse(raw, max_bytes=max_bytes)
    except JsonRefused as error:
        msg = "the request is not valid"
        raise InvalidRequest(msg, violations=[Violation(pointer, str(error))]) from None
