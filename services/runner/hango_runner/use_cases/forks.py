"""Going on from a checkpoint another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hango_platform import ids
from hango_platform.errors import EditInvalid, InvalidRequest, Violation
from hango_policy import strict_json
from hango_policy.errors import JsonRefused, pointer_to

from hango_runner.domain.fork import NewFork
from hango_runner.use_cases.runs import checked_input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hango_platform.rpc.caller import Principal

    from hango_runner.agent.ports import Catalog
    from hango_runner.domain.fork import Difference, Forked
    from hango_runner.domain.run import Idempotency
    from hango_runner.ports import ForkStore
    from hango_runner.use_cases.runs import Runs


class Forks:
    """What users may do from the checkpoints of runs that they see."""

    def __init__(self, store: ForkStore, runs: Runs, catalog: Catalog) -> None:
        self._store = store
        self._runs = runs
        self._catalog = catalog

    async def fork(
        self,
        run_id: str,
        checkpoint_id: str,
        given: bytes | None,
        edits: Mapping[str, bytes],
        *,
        by: Principal,
        repeat: Idempotency | None,
        encode: Callable[[Forked], bytes],
    ) -> Forked | bytes:
        """Queue a run that goes on from there; the first answer where this is a repeat.

        Raises NotFound, InvalidRequest, EditInvalid, SecondPartyRequired, IdempotencyMismatch,
        IdempotencyInFlight.
        """
        if given is not None and edits:
            msg = "a new input leaves the open calls as they are: give one or the other"
            raise InvalidRequest(msg, violations=[Violation("/edit_calls", msg)])
        text = None if given is None else checked_input(given)
        if (first := await self._runs.earlier(by, repeat)) is not None:
            return first
        await self._runs.need_approver(by)
        if edits:
            await self._check_edits(run_id, checkpoint_id, edits, by)
        changed = {call_id: raw.decode() for call_id, raw in edits.items()}
        fork = NewFork(ids.new_id(), run_id, checkpoint_id, text, changed)
        return await self._store.fork(fork, by, repeat, encode)

    async def diff(self, run_id: str, other_id: str, *, by: Principal) -> Difference:
        """Where two runs part. Raises NotFound, Conflict."""
        return await self._store.diff(run_id, other_id, by)

    async def _check_edits(
        self, run_id: str, checkpoint_id: str, edits: Mapping[str, bytes], by: Principal
    ) -> None:
        """The new arguments must be ones that the tools take now; the rules judge them later."""
        _, calls, _ = await self._store.get(run_id, checkpoint_id, by)
        tools = {call.tool_call_id: call.tool_name for call in calls}
        await self._catalog.settled()
        for call_id, raw in edits.items():
            at = pointer_to("/edit_calls", call_id)
            if call_id not in tools:
                msg = "no such call is open at this checkpoint"
                raise InvalidRequest(msg, violations=[Violation(at, msg)])
            if violations := self._violations(tools[call_id], raw, f"{at}/args"):
                raise EditInvalid(violations=violations)

    def _violations(self, tool: str, raw: bytes, at: str) -> list[Violation]:
        try:
            arguments = strict_json.parse(raw)
        except JsonRefused as error:
            return [Violation(at, error.reason)]
        if not isinstance(arguments, dict):
            return [Violation(at, "must be an object")]
        schema = self._catalog.schema(tool)
        if schema is None:
            return [Violation(at, "there is no tool of this name any more")]
        return [Violation(f"{at}{v.pointer}", v.message) for v in schema.violations(arguments)]
