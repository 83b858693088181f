"""The journal of the loop, in PostgreSQL: each step one transaction, fenced by the run's epoch."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hango_platform import faults, ids
from hango_platform.postgres.queries import load
from hango_policy import strict_json

from hango_runner.agent.calls import digest
from hango_runner.agent.middleware.memory import NOTES
from hango_runner.agent.state import (
    Call,
    ExecState,
    LeaseLost,
    Loaded,
    Message,
    Notes,
    Ruling,
    Skill,
)
from hango_runner.agent.tools import Effect
from hango_runner.domain.run import RunEnd
from hango_runner.domain.story import (
    Event,
    json_text,
    message_created,
    run_finished,
    tool_event,
)
from hango_runner.postgres.files import SqlFiles
from hango_runner.postgres.rows import call_of, calls_text, message_of, replay_of, result_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row, Transaction

    from hango_runner.agent.state import Finished, Run, Suspension, Usage
    from hango_runner.agent.tools import ToolResult
    from hango_runner.postgres.outbox import Outbox, Wake

SQL = load(__package__)


class SqlJournal:
    """Every step takes the run's row first, and finds out there whether the run is still held.

    `wake` is called with a run's id after each commit that its readers should see;
    `open_payload` makes of a suspension what the relay hands to A.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        wake: Wake,
        open_payload: Callable[[Suspension], bytes],
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._wake = wake
        self._open_payload = open_payload

    async def load(self, run: Run) -> Loaded:
        """One look at all that the loop goes on with."""
        calls: Sequence[Row] = ()
        replay = None
        async with self._database.tenant(run.tenant_id) as tx:
            messages = await tx.many(SQL.conversation, run.tenant_id, run.id)
            if run.next == "tools":
                calls = await tx.many(SQL.batch_calls, run.tenant_id, run.id, "", run.turn - 1)
            elif run.turn == 0:
                replay = await tx.one(SQL.replayed_answer, run.tenant_id, run.id)
            kept = await tx.many(SQL.kept_files, run.tenant_id, f"agent:{run.agent}", NOTES)
            spent = await tx.one(SQL.spent, run.tenant_id, run.id)
        return Loaded(
            messages=[message_of(r) for r in messages],
            calls=[call_of(r) for r in calls],
            notes=Notes(
                next((r["content"] for r in kept if r["path"] == NOTES), None),
                tuple(Skill(r["path"], r["content"]) for r in kept if r["path"] != NOTES),
            ),
            worked=0.0 if spent is None else spent["worked"],
            refused=()
            if spent is None
            else tuple(zip(spent["tools"] or (), spent["arguments"] or (), strict=True)),
            replay=None if replay is None else replay_of(replay),
        )

    async def answered(
        self,
        run: Run,
        message: Message,
        usage: Usage,
        calls: Sequence[Call],
        suspension: Suspension | None,
    ) -> None:
        """T1b, with T2 where the answer suspends at once. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            of_agent = (run.tenant_id, run.id, run.epoch, usage.input_tokens, usage.output_tokens)
            if run.path:
                row = await tx.one(SQL.answer_subagent, *of_agent, run.path, "tools")
            else:
                suspension_id = None if suspension is None else suspension.id
                row = await tx.one(SQL.answer_run, *of_agent, 1, suspension_id)
            if row is None:
                raise LeaseLost(run.id)
            event = await self._append(
                tx, run, [message], row["message_seq"], turn=run.turn + 1, goes_on="tools"
            )
            await self._insert_calls(tx, run, calls)
            await _tell(tx, run, row["event_seq"], event)
            if suspension is not None:
                await self._outbox.open_later(
                    tx, run.tenant_id, suspension.id, self._open_payload(suspension)
                )
            if faults.ACTIVE:
                await faults.reach("before_answer" if suspension is None else "before_suspend")
        if faults.ACTIVE:
            await faults.reach("after_answer" if suspension is None else "after_suspend")

    async def started(self, run: Run, call: Call, effect: str) -> None:
        """T7. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            await self._start(tx, run, call, effect)
            await self._outbox.report(
                tx, run.tenant_id, run.id, [(call.approval_id, ExecState.STARTED)]
            )
            if faults.ACTIVE:
                await faults.reach("before_journal_commit")

    async def finished(self, run: Run, call: Call, state: ExecState, result: ToolResult) -> None:
        """T8. Raises LeaseLost where another epoch has started the call since."""
        async with self._transaction(run) as tx:
            await self._finish(tx, run, call, state, result)
        if faults.ACTIVE:
            await faults.reach("after_result")

    async def gave_up(self, run: Run, call: Call, state: ExecState, result: ToolResult) -> None:
        """A call that cannot be started, or that an older epoch had started. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            row = await tx.one(
                SQL.give_up_call,
                run.tenant_id,
                run.id,
                run.epoch,
                *call.key,
                state.value,
                result_text(result),
                _finished_event(call, state).data,
            )
            if row is None or not row["held"] or not row["given_up"]:
                raise LeaseLost(run.id)
            await self._outbox.report(tx, run.tenant_id, run.id, [(call.approval_id, state)])

    @asynccontextmanager
    async def transactional(self, run: Run, call: Call) -> AsyncIterator[SqlTransactionalCall]:
        """T7, the effect and T8 in one transaction. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            await self._start(tx, run, call, Effect.TRANSACTIONAL)
            yield SqlTransactionalCall(self, tx, run, call)
        if faults.ACTIVE:
            await faults.reach("after_result")

    async def batch_done(self, run: Run, results: Sequence[Message]) -> None:
        """T8b. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            n = len(results)
            of_agent = (run.tenant_id, run.id, run.epoch, n, n)
            if run.path:
                row = await tx.one(SQL.finish_subagent_batch, *of_agent, run.path)
            else:
                row = await tx.one(SQL.finish_batch, *of_agent)
            if row is None:
                raise LeaseLost(run.id)
            events = await self._append(
                tx, run, results, row["message_seq"], turn=run.turn, goes_on="model"
            )
            await _tell(tx, run, row["event_seq"], events)
            if faults.ACTIVE:
                await faults.reach("before_batch")
        if faults.ACTIVE:
            await faults.reach("after_batch")

    async def entered(self, run: Run, prompt: str) -> Loaded:
        """A subagent begins, or goes on where it stood; `run` gets its turn and next step.

        Raises LeaseLost.
        """
        async with self._transaction(run) as tx:
            place = (run.tenant_id, run.id, run.path)
            row = await tx.one(SQL.subagent, *place)
            if row is None:
                seqs = await tx.one(
                    SQL.enter_subagent, run.tenant_id, run.id, run.epoch, run.path, run.spec.name
                )
                if seqs is None:
                    raise LeaseLost(run.id)
                events = await self._append(
                    tx,
                    run,
                    [Message("user", prompt)],
                    seqs["message_seq"],
                    turn=0,
                    goes_on="model",
                )
                await _tell(tx, run, seqs["event_seq"], events)
            else:
                run.turn, run.next = row["turn"], row["next"]
            messages = await tx.many(SQL.subagent_messages, *place)
            calls: Sequence[Row] = ()
            if run.next == "tools":
                calls = await tx.many(SQL.batch_calls, *place, run.turn - 1)
        return Loaded([message_of(r) for r in messages], [call_of(r) for r in calls], Notes())

    async def said_last(self, run: Run, message: Message, usage: Usage) -> None:
        """A subagent's last answer. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            row = await tx.one(
                SQL.answer_subagent,
                run.tenant_id,
                run.id,
                run.epoch,
                usage.input_tokens,
                usage.output_tokens,
                run.path,
                "done",
            )
            if row is None:
                raise LeaseLost(run.id)
            events = await self._append(
                tx, run, [message], row["message_seq"], turn=run.turn + 1, goes_on="model"
            )
            await _tell(tx, run, row["event_seq"], events)

    async def suspended(self, run: Run, suspension: Suspension) -> None:
        """T2 alone, for calls of subagents. Raises LeaseLost."""
        async with self._transaction(run) as tx:
            row = await tx.one(SQL.suspend_run, run.tenant_id, run.id, run.epoch, suspension.id)
            if row is None:
                raise LeaseLost(run.id)
            await self._outbox.open_later(
                tx, run.tenant_id, suspension.id, self._open_payload(suspension)
            )
            if faults.ACTIVE:
                await faults.reach("before_suspend")
        if faults.ACTIVE:
            await faults.reach("after_suspend")

    async def ended(self, run: Run, end: Finished) -> None:
        """T9. Raises LeaseLost."""
        state = "succeeded" if end.succeeded else "failed"
        last = [] if end.answer is None else [Message("assistant", end.answer.text)]
        usage = None if end.answer is None else end.answer.usage
        async with self._transaction(run, to_rest=True) as tx:
            row = await tx.one(
                SQL.finish_run,
                run.tenant_id,
                run.id,
                run.epoch,
                state,
                end.reason,
                end.message,
                len(last),
                len(last) + 1,
                None if end.output is None else json_text(end.output),
                0 if usage is None else usage.input_tokens,
                0 if usage is None else usage.output_tokens,
            )
            if row is None:
                raise LeaseLost(run.id)
            events = []
            if last:
                events = await self._append(
                    tx, run, last, row["message_seq"], turn=run.turn + 1, goes_on="model"
                )
            events.append(run_finished(state, end.reason, end.message))
            await _tell(tx, run, row["event_seq"], events)
            if not end.succeeded:
                # A batch may be open: what was approved and never started will not run any more.
                await self._outbox.skip(tx, run.tenant_id, run.id)
            await self._outbox.finished(
                tx,
                RunEnd(
                    tenant_id=run.tenant_id,
                    run_id=run.id,
                    tenant=run.tenant,
                    agent=run.agent,
                    state=state,
                    reason=end.reason,
                    last_event_seq=row["event_seq"] + len(events) - 1,
                ),
            )
            if faults.ACTIVE:
                await faults.reach("before_finish")
        if faults.ACTIVE:
            await faults.reach("after_finish")

    @asynccontextmanager
    async def _transaction(self, run: Run, *, to_rest: bool = False) -> AsyncIterator[Transaction]:
        async with self._database.tenant(run.tenant_id) as tx:
            tx.after_commit(lambda: self._wake(run.id, to_rest))
            yield tx

    async def _start(self, tx: Transaction, run: Run, call: Call, effect: str) -> None:
        row = await tx.one(
            SQL.start_call,
            run.tenant_id,
            run.id,
            run.epoch,
            *call.key,
            digest(call.arguments),
            str(effect),
            tool_event("tool.started", call.tool_call_id, call.tool_name).data,
        )
        if row is None or not row["held"] or not row["started"]:
            raise LeaseLost(run.id)

    async def _finish(
        self, tx: Transaction, run: Run, call: Call, state: ExecState, result: ToolResult
    ) -> None:
        row = await tx.one(
            SQL.finish_call,
            run.tenant_id,
            run.id,
            run.epoch,
            *call.key,
            state.value,
            result_text(result),
            _finished_event(call, state).data,
        )
        if row is None or not row["finished"]:
            raise LeaseLost(run.id)
        await self._outbox.report(tx, run.tenant_id, run.id, [(call.approval_id, state)])
        if faults.ACTIVE:
            await faults.reach("before_result")

    async def _append(
        self,
        tx: Transaction,
        run: Run,
        messages: Sequence[Message],
        first: int,
        *,
        turn: int,
        goes_on: str,
    ) -> list[Event]:
        """Add messages with the checkpoint behind them; the events that tell of them."""
        contents = [json_text(m.content) for m in messages]
        await tx.exec(
            SQL.insert_messages,
            run.tenant_id,
            run.id,
            first,
            run.path,
            [m.role for m in messages],
            contents,
            [calls_text(m.tool_calls) for m in messages],
            [m.tool_call_id for m in messages],
            [m.tool_name for m in messages],
            [m.is_error for m in messages],
            ids.new_id(),
            turn,
            goes_on,
            run.subagent_call_id,
        )
        return [
            message_created(
                first + i, m.role, text, subagent_call_id=run.subagent_call_id, **_members(m)
            )
            for i, (m, text) in enumerate(zip(messages, contents, strict=True))
        ]

    async def _insert_calls(self, tx: Transaction, run: Run, calls: Sequence[Call]) -> None:
        await tx.exec(
            SQL.insert_calls,
            run.tenant_id,
            run.id,
            run.path,
            run.turn,
            [c.tool_call_id for c in calls],
            [c.tool_name for c in calls],
            [c.arguments for c in calls],
            [digest(c.arguments) for c in calls],
            [c.ruling.value for c in calls],
            [c.kind.value for c in calls],
            [_json_or_none(c.rule) for c in calls],
            [",".join(c.allowed) if c.ruling is Ruling.GATED else None for c in calls],
            [_json_or_none(c.parameters) for c in calls],
            [_json_or_none(c.input) for c in calls],
            [c.exec_state.value for c in calls],
            [None if c.result is None else result_text(c.result) for c in calls],
            run.subagent_call_id,
        )


class SqlTransactionalCall:
    """A call whose effect is in this transaction."""

    def __init__(self, journal: SqlJournal, tx: Transaction, run: Run, call: Call) -> None:
        self._journal, self._tx, self._run, self._call = journal, tx, run, call
        self.files = SqlFiles(tx, run, call.key.turn)

    async def finish(self, result: ToolResult) -> None:
        """T8, in the same transaction."""
        state = ExecState.FAILED if result.is_error else ExecState.SUCCEEDED
        finish = self._journal._finish  # noqa: SLF001  one class in two halves
        await finish(self._tx, self._run, self._call, state, result)


async def _tell(tx: Transaction, run: Run, first: int, events: Sequence[Event]) -> None:
    await tx.exec(
        SQL.insert_events,
        run.tenant_id,
        run.id,
        first,
        [e.type for e in events],
        [e.data for e in events],
    )


def _finished_event(call: Call, state: ExecState) -> Event:
    return tool_event("tool.finished", call.tool_call_id, call.tool_name, state=state.value)


def _members(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {
            "tool_call_id": message.tool_call_id,
            "tool_name": message.tool_name,
            "is_error": message.is_error,
        }
    return {"tool_calls": [{"id": c.id, "name": c.name} for c in message.tool_calls]}


def _json_or_none(value: Any) -> str | None:
    return None if value is None else strict_json.dumps(value).decode()
