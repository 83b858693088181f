"""Checkpoints, forks and differences in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform.errors import Conflict, InvalidRequest, NotFound, Violation
from hango_platform.ids import is_id, new_id
from hango_platform.postgres.queries import load
from hango_platform.telemetry import trace

from hango_runner.agent.state import Ruling
from hango_runner.domain.fork import (
    HARMLESS,
    NOT_EXECUTED,
    Checkpoint,
    Compared,
    Difference,
    Executed,
    Forked,
    Link,
    Parting,
    parting,
    side_by_side,
)
from hango_runner.domain.story import Event, json_object, json_text, message_created
from hango_runner.postgres import repeats
from hango_runner.postgres.files import scope_of
from hango_runner.postgres.rows import call_of
from hango_runner.postgres.views import run_view
from hango_runner.postgres.visible import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hango_platform.postgres.pool import Database
    from hango_platform.postgres.transaction import Row, Transaction
    from hango_platform.rpc.caller import Principal

    from hango_runner.agent.state import Call
    from hango_runner.domain.fork import NewFork
    from hango_runner.domain.run import Idempotency
    from hango_runner.postgres.outbox import Wake

SQL = load(__package__)


class SqlForks:
    """Each method is one transaction, and raises NotFound where the caller may not see the run."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake

    async def list_page(
        self, run_id: str, after: int, limit: int, by: Principal
    ) -> list[Checkpoint]:
        """Checkpoints with more than `after` messages, oldest first."""
        async with self._database.tenant(by.tenant_id) as tx:
            await seen(tx, run_id, by)
            rows = await tx.many(SQL.list_checkpoints, by.tenant_id, run_id, after, limit)
        return [_checkpoint(r) for r in rows]

    async def get(
        self, run_id: str, checkpoint_id: str, by: Principal
    ) -> tuple[Checkpoint, list[Call], bytes | None]:
        """A checkpoint, the calls that are open there, and the arguments of the last
        `write_todos` before.
        """
        async with self._database.tenant(by.tenant_id) as tx:
            await seen(tx, run_id, by)
            checkpoint = await checkpoint_of(tx, run_id, checkpoint_id, by)
            calls = await _open_calls(tx, run_id, checkpoint, by)
            todos = await tx.one(SQL.last_todos, by.tenant_id, run_id, _turns_before(checkpoint))
        return checkpoint, calls, None if todos is None else todos["arguments_raw"]

    async def fork(
        self,
        fork: NewFork,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[Forked], bytes],
    ) -> Forked | bytes:
        """T0 of a fork; the first answer where this is a repeat.

        Raises InvalidRequest, IdempotencyMismatch, IdempotencyInFlight.
        """
        async with self._database.tenant(by.tenant_id) as tx:
            origin = await seen(tx, fork.run_id, by)
            if (earlier := await repeats.begin(tx, by, repeat)) is not None:
                return earlier
            checkpoint = await checkpoint_of(tx, fork.run_id, fork.checkpoint_id, by)
            await _check(tx, fork, origin, checkpoint, by)
            run = await _insert(tx, fork, origin, checkpoint, by)
            rows = await tx.many(
                SQL.executed_calls,
                by.tenant_id,
                fork.run_id,
                _turns_before(checkpoint),
                HARMLESS,
            )
            forked = Forked(
                run_view(run),
                before=tuple(_executed(r) for r in rows if not r["later"]),
                after=tuple(_executed(r) for r in rows if r["later"]),
            )
            await repeats.end(tx, by, repeat, encode(forked))
            tx.after_commit(lambda: self._wake(fork.id, False))
        return forked

    async def diff(self, run_id: str, other_id: str, by: Principal) -> Difference:
        """Where two runs part. Raises Conflict where they have no common origin."""
        async with self._database.tenant(by.tenant_id) as tx:
            run = await seen(tx, run_id, by)
            await seen(tx, other_id, by)
            chains = [
                [
                    Link(str(r["run_id"]), r["depth"], r["last_seq"], r["turns"])
                    for r in await tx.many(SQL.chain_of_run, by.tenant_id, one)
                ]
                for one in (run_id, other_id)
            ]
            place = parting(*chains)
            if place is None:
                msg = "these runs have no common origin"
                raise Conflict(msg)
            calls = await _since(tx, run_id, place.depth, place, by)
            others = await _since(tx, other_id, place.other_depth, place, by)
        shared = min(place.last_seq, run["next_message_seq"] - 1)
        return Difference(place.origin, shared, side_by_side(calls, others))


async def checkpoint_of(
    tx: Transaction, run_id: str, checkpoint_id: str, by: Principal
) -> Checkpoint:
    """A checkpoint of a run that the caller sees. Raises NotFound."""
    row = None
    if is_id(checkpoint_id):
        row = await tx.one(SQL.get_checkpoint, by.tenant_id, run_id, checkpoint_id)
    if row is None:
        msg = "the run has no such checkpoint"
        raise NotFound(msg)
    return _checkpoint(row, ended=row["next"] == "model" and row["role"] == "assistant")


def _checkpoint(row: Row, *, ended: bool = False) -> Checkpoint:
    return Checkpoint(
        id=str(row["id"]),
        turn=row["turn"],
        next=row["next"],
        message_count=row["message_count"],
        created_at=row["created_at"],
        ended=ended,
    )


def _turns_before(checkpoint: Checkpoint) -> int:
    """Turns whose calls are over: an open batch is not."""
    return checkpoint.turn - (checkpoint.next == "tools")


async def _open_calls(
    tx: Transaction, run_id: str, checkpoint: Checkpoint, by: Principal
) -> list[Call]:
    if checkpoint.next != "tools":
        return []
    rows = await tx.many(SQL.batch_calls, by.tenant_id, run_id, "", checkpoint.turn - 1)
    return [call_of(r) for r in rows]


async def _check(
    tx: Transaction, fork: NewFork, origin: Row, checkpoint: Checkpoint, by: Principal
) -> None:
    agent = await tx.one(SQL.newest_agent, by.tenant_id, origin["agent"])
    if agent is None or agent["deleted_at"] is not None:
        msg = f"there is no agent {origin['agent']} any more"
        raise NotFound(msg)
    if fork.edits and checkpoint.next != "tools":
        msg = "no call is open at this checkpoint"
        raise InvalidRequest(msg, violations=[Violation("/edit_calls", msg)])
    if checkpoint.ended and fork.input is None:
        msg = "the agent had ended here: it can only go on with a new input"
        raise InvalidRequest(msg, violations=[Violation("/input", "is needed here")])


async def _insert(
    tx: Transaction, fork: NewFork, origin: Row, checkpoint: Checkpoint, by: Principal
) -> Row:
    """The run with its files, messages, checkpoint and story."""
    replays = checkpoint.next == "tools" and fork.input is None
    shared = checkpoint.message_count - replays
    calls = [] if fork.input is None else await _open_calls(tx, fork.run_id, checkpoint, by)
    added = 0 if fork.input is None else len(calls) + 1
    run = await tx.one(
        SQL.insert_fork,
        fork.id,
        by.tenant_id,
        fork.run_id,
        by.user_id,
        trace.traceparent(),
        shared,
        _turns_before(checkpoint),
        json_text(dict(fork.edits)) if replays else None,
        added,
        added + 1,
    )
    await tx.exec(
        SQL.copy_files,
        by.tenant_id,
        scope_of(fork.run_id, origin["thread_id"]),
        checkpoint.created_at,
        scope_of(fork.id, None),
        fork.id,
    )
    events = await _add_messages(tx, fork, calls, shared, by)
    head = {"forked_from": fork.run_id, "checkpoint_id": fork.checkpoint_id}
    events = [Event("run.queued", json_object(head)), *events]
    await tx.exec(
        SQL.insert_events,
        by.tenant_id,
        fork.id,
        1,
        [e.type for e in events],
        [e.data for e in events],
    )
    return run


async def _add_messages(
    tx: Transaction, fork: NewFork, calls: Sequence[Call], shared: int, by: Principal
) -> list[Event]:
    """Answers to the calls that stay open, then the new input; without one nothing but the
    checkpoint. The events that tell of them.
    """
    contents = [json_text(_left(call)) for call in calls]
    contents += [] if fork.input is None else [fork.input]
    own = len(contents) - len(calls)
    roles = ["tool"] * len(calls) + ["user"] * own
    call_ids = [*(c.tool_call_id for c in calls), *[None] * own]
    names = [*(c.tool_name for c in calls), *[None] * own]
    errors = [True] * len(calls) + [False] * own
    await tx.exec(
        SQL.insert_messages,
        by.tenant_id,
        fork.id,
        shared + 1,
        "",
        roles,
        contents,
        [None] * len(contents),
        call_ids,
        names,
        errors,
        new_id(),
        0,
        "model",
        None,
    )
    return [
        message_created(
            seq,
            role,
            content,
            **(
                {"tool_call_id": call_id, "tool_name": name, "is_error": True}
                if role == "tool"
                else {}
            ),
        )
        for seq, (role, content, call_id, name) in enumerate(
            zip(roles, contents, call_ids, names, strict=True), shared + 1
        )
    ]


def _left(call: Call) -> str:
    """What the model is told of a call that the fork does not make."""
    return call.result.text if call.ruling is Ruling.BAD and call.result else NOT_EXECUTED


def _executed(row: Row) -> Executed:
    return Executed(str(row["run_id"]), row["tool_call_id"], row["tool_name"], row["exec_state"])


async def _since(
    tx: Transaction, run_id: str, depth: int, place: Parting, by: Principal
) -> list[Compared]:
    rows = await tx.many(SQL.calls_since, by.tenant_id, run_id, depth, place.turns)
    return [
        Compared(
            step=r["step"],
            call_index=r["call_index"],
            tool_call_id=r["tool_call_id"],
            tool_name=r["tool_name"],
            arguments=r["arguments_raw"],
            ran=r["ran_raw"],
            decision=r["decision"],
            state=r["exec_state"],
            result=r["result"],
            is_error=r["is_error"],
        )
        for r in rows
    ]
