"""Calls that a rule stops wait for a person, and then do what the person ruled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hango_policy import rules, strict_json
from hango_policy.errors import JsonRefused, SchemaRefused
from hango_policy.schemas import compile_schema

from hango_runner.agent.calls import edited_note
from hango_runner.agent.chain import AwaitingApproval, Middleware
from hango_runner.agent.state import ExecState, Kind, Ruling
from hango_runner.agent.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hango_runner.agent.chain import ToolCall
    from hango_runner.agent.ports import Catalog
    from hango_runner.agent.state import Call, Decision, Run

ASK_HUMAN = "ask_human"
_ANSWERS = ("reject", "respond")


class HumanInTheLoop(Middleware):
    """Judges with the rules of the run's pinned agent version; applies the decisions that A gave.

    Take this line out of the chain, and the loop behaves as if approvals did not exist.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def judge(self, run: Run, calls: Sequence[Call]) -> list[Call]:
        """The calls with their rulings; what cannot be decided waits for a person."""
        specs = self._catalog.specs(run.tenant)
        entries = rules.parse_interrupt_on(run.spec.interrupt_on, known_tools=_every_name(run))
        sources = {name: spec.source for name, spec in specs.items()}
        effective = rules.effective(entries, {c.tool_name for c in calls}, sources)
        return [
            self._judge_one(c, effective[c.tool_name], specs[c.tool_name].parameters)
            if c.ruling is Ruling.FREE
            else c
            for c in calls
        ]

    def _judge_one(self, call: Call, rule: rules.EffectiveRule, parameters: dict[str, Any]) -> Call:
        arguments = strict_json.parse(call.arguments)
        if call.tool_name == ASK_HUMAN:
            return _question(call, arguments, parameters)
        match rules.judge(rule, arguments):
            case rules.NotGated():
                return call
            case rules.Gated(rule=fired, allowed=allowed):
                return replace(
                    call,
                    ruling=Ruling.GATED,
                    rule=fired,
                    allowed=tuple(d.value for d in allowed),
                    parameters=parameters,
                )

    async def around_tool(
        self, asked: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call as it was decided, or answer in its place. Raises AwaitingApproval."""
        call = asked.call
        if call.ruling is not Ruling.GATED:
            return await call_next(asked)
        if call.decision is None:
            raise AwaitingApproval(call)
        decision = call.decision
        match decision.kind:
            case "approve":
                return await call_next(_with_bytes(asked, decision))
            case "edit":
                if not _edit_holds(call, decision):
                    return ToolResult(
                        "A person changed the arguments of this call in a way that its rule does "
                        "not allow. Nothing was done.",
                        is_error=True,
                        refused=True,
                    )
                result = await call_next(_with_bytes(asked, decision))
                ran = (decision.raw or b"").decode("utf-8", "replace")
                return replace(result, text=edited_note(ran) + result.text)
            case "reject":
                return ToolResult(_refusal(decision), is_error=True)
            case _:
                return ToolResult(_answer(decision))


def _every_name(run: Run) -> Sequence[str]:
    # The spec was checked when it was saved; a tool that has gone since must not lift its rule.
    return list(run.spec.interrupt_on)


def _question(call: Call, arguments: Any, parameters: dict[str, Any]) -> Call:
    schema = arguments.get("schema")
    if schema is not None:
        try:
            compile_schema(schema)
        except SchemaRefused as error:
            text = f"The schema of the question cannot be used: {error}. Nobody was asked."
            return replace(
                call,
                ruling=Ruling.BAD,
                exec_state=ExecState.FAILED,
                result=ToolResult(text, is_error=True),
            )
    return replace(
        call,
        ruling=Ruling.GATED,
        kind=Kind.INPUT,
        rule={
            "source": "tool",
            "entry": ASK_HUMAN,
            "allowed_decisions": list(_ANSWERS),
            "when": None,
        },
        allowed=_ANSWERS,
        parameters=parameters,
        input={"payload": {"question": arguments["question"]}, "schema": schema},
    )


def _with_bytes(asked: ToolCall, decision: Decision) -> ToolCall:
    """The call with exactly the bytes that were decided on."""
    raw = decision.raw if decision.raw is not None else asked.call.arguments
    return replace(asked, call=replace(asked.call, arguments=raw))


def _edit_holds(call: Call, decision: Decision) -> bool:
    """Once more what A has checked already: the stored schema and the stored rule."""
    try:
        arguments = strict_json.parse(decision.raw or b"")
        schema = compile_schema(call.parameters)
    except (JsonRefused, SchemaRefused):
        return False
    return not schema.violations(arguments) and rules.in_scope(call.rule, arguments)


def _refusal(decision: Decision) -> str:
    said = decision.message
    reason = f' The person said: "{said}".' if said else " The person gave no reason."
    return (
        f"A person refused this call, and it did not run.{reason} Do not ask for the same call "
        "again; go on without it, or ask for something else."
    )


def _answer(decision: Decision) -> str:
    if decision.value is not None:
        return decision.value.decode("utf-8", "replace")
    return decision.message or ""
