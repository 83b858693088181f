"""The state machines are the same in the code, the SQL, the proto and the model."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from hango.common.v1 import types_pb2
from hango_approvals.domain.suspension import (
    EXECUTION_TRANSITIONS,
    ApprovalKind,
    DecisionKind,
    Execution,
)
from hango_approvals.domain.suspension import TRANSITIONS as CLOSINGS
from hango_approvals.domain.suspension import State as SuspensionState
from hango_runner.agent.state import ExecState, Kind
from hango_runner.domain.run import TRANSITIONS, RunState
from hango_runner.domain.verdict import VerdictState

from tests.unit.model import promela

if TYPE_CHECKING:
    import enum
    from collections.abc import Collection, Mapping

LIVE = {"queued", "running", "awaiting_approval"}
RUN_GUARDS = {
    **{f"rst == {state.name}": {state.value} for state in RunState},
    "FENCE": {"running"},
    "LETGO": {"running"},
    "!TERMINAL": LIVE,
}
CLOSING_GUARDS = {"MAYDECIDE(": {"pending"}, "== PENDING": {"pending"}, "== ABSENT": {"absent"}}
CALL_GUARDS = {
    "== NONE": {"none"},
    "== STARTED": {"started"},
    "== UNKNOWN": {"unknown"},
    "== NEEDS_INPUT": {"needs_input"},
    "UNSTARTED(": {"none", "needs_input"},
    # A reduction of the search: a settled call of a finished batch is given one shape.
    "DONE(": (),
}
# What the model has in one state and the code in two, or in another's.
CODE_OF = {"result": {"succeeded", "failed"}, "refused": {"skipped"}}


def values(kind: type[enum.StrEnum]) -> set[str]:
    return {member.value for member in kind}


def edges(table: Mapping[Any, Collection[str]]) -> set[tuple[str, str]]:
    return {(str(start), str(end)) for start, ends in table.items() for end in ends}


def checked(package: str, column: str) -> list[set[str]]:
    """The words that each CHECK of a column of this name allows, the last migration's last."""
    folder = files(package) / "migrations"
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".up.sql"))
    found = re.findall(
        rf"\(\s*{column} IN\s*\(([^)]*)\)\s*\)",
        "\n".join((folder / n).read_text() for n in names),
    )
    return [set(re.findall(r"'(\w+)'", words)) for words in found]


def proto(enum_name: str) -> set[str]:
    kind = types_pb2.DESCRIPTOR.enum_types_by_name[enum_name]
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum_name).upper() + "_"
    return {v.name.removeprefix(prefix).lower() for v in kind.values} - {"unspecified"}


def test_the_states_of_a_run() -> None:
    assert values(RunState) == proto("RunState") == promela.states("life")
    assert checked("hango_runner.postgres", "state")[-1] == values(RunState)


def test_the_transitions_of_a_run() -> None:
    assert set(TRANSITIONS) == set(RunState)
    assert edges(promela.moves("rst", RUN_GUARDS, {})) == edges(TRANSITIONS)


def test_the_states_of_a_suspension() -> None:
    # In the code a tombstone is a withdrawn row without calls, and a missing row has no state.
    in_model = promela.states("suspension") - {"absent", "tombstone"}
    assert values(SuspensionState) == values(VerdictState) == proto("ApprovalState") == in_model
    assert checked("hango_approvals.postgres", "state") == [in_model, in_model]


def test_the_transitions_of_a_suspension() -> None:
    in_model = promela.moves("susp", CLOSING_GUARDS, {})
    assert in_model.pop("absent") == {"pending", "tombstone"}
    assert edges(in_model) == edges(CLOSINGS)


def test_the_states_of_a_call() -> None:
    assert values(ExecState) == values(Execution) | (values(ExecState) & {"needs_input"})
    assert proto("ExecutionState") == values(Execution)
    assert checked("hango_runner.postgres", "exec_state")[-1] == values(ExecState)
    assert checked("hango_approvals.postgres", "execution_state") == [values(Execution)]
    in_model = set[str]()
    for state in promela.states("call"):
        in_model |= CODE_OF.get(state, {state})
    assert in_model - {"needs_input"} == values(ExecState) - {"needs_input"}


def test_a_reported_call_may_go_wherever_the_model_lets_it_go() -> None:
    """A learns of some of a call's states, so a report may skip those between."""
    asking = "needs_input" in values(ExecState)
    steps = set[tuple[str, str]]()
    for start, end in edges(promela.moves("ex", CALL_GUARDS, {"ASKED": "needs_input"})):
        if asking or "needs_input" not in (start, end):
            steps |= {(start, to) for to in CODE_OF.get(end, {end})}
    while more := {(a, d) for a, b in steps for c, d in steps if b == c} - steps:
        steps |= more
    reported = {(a, b) for a, b in steps if "needs_input" not in (a, b) and a != b}
    assert reported == edges(EXECUTION_TRANSITIONS)


def test_asking_is_in_the_model() -> None:
    in_model = promela.moves("ex", CALL_GUARDS, {"ASKED": "needs_input"})
    assert in_model["needs_input"] == {"started", "refused", "skipped"}
    assert "needs_input" in in_model["started"]
    assert "needs_input" not in in_model["none"] | in_model["unknown"]


@pytest.mark.parametrize(
    ("kind", "name", "package", "column"),
    [
        (DecisionKind, "DecisionKind", "hango_approvals.postgres", "decision"),
        (DecisionKind, "DecisionKind", "hango_runner.postgres", "decision"),
        (ApprovalKind, "ApprovalKind", "hango_approvals.postgres", "kind"),
        (Kind, "ApprovalKind", "hango_runner.postgres", "kind"),
    ],
)
def test_the_words_of_a_decision(
    kind: type[enum.StrEnum], name: str, package: str, column: str
) -> None:
    assert values(kind) == proto(name)
    assert checked(package, column)[-1] == values(kind)


def test_the_models_decisions_are_some_of_the_words() -> None:
    """An edit is an approval of other bytes; the model has no bytes."""
    assert promela.states("decision") - {"undecided"} == values(DecisionKind) - {"edit"}
