"""The body of a decide. Whatever is wrong with it is passed on beside what can be expressed: the
approvals service refuses it, after it has looked at the caller's right and the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hango.approvals.v1 import approvals_pb2 as pb
from hango.common.v1 import types_pb2
from hango_platform.errors import InvalidRequest, Violation
from hango_policy import strict_json
from hango_policy.errors import pointer_to

from hango_gateway.mapping import bodies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hango_policy.strict_json import JsonValue

_KINDS = {
    "approve": types_pb2.DECISION_KIND_APPROVE,
    "edit": types_pb2.DECISION_KIND_EDIT,
    "reject": types_pb2.DECISION_KIND_REJECT,
    "respond": types_pb2.DECISION_KIND_RESPOND,
}
_TEXTS = ("approval_id", "tool_call_id", "message", "tool_name", "arguments_sha256")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a body says, as far as it can be said, and what is wrong with it."""

    decisions: list[pb.Decision] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)


def read(raw: bytes) -> Reading:
    """Read a body. `args` and `value` are taken as they stand in it, byte by byte."""
    try:
        body = bodies.parse(raw)
    except InvalidRequest as error:
        return Reading(violations=list(error.violations))
    if not isinstance(body, dict):
        return Reading(violations=[Violation("", "must be an object")])
    items = body.get("decisions")
    if not isinstance(items, list):
        return Reading(violations=[Violation("/decisions", "must be a list of decisions")])
    reading = Reading()
    exact = strict_json.raw_items(strict_json.raw_members(raw)["decisions"])
    for index, (item, text) in enumerate(zip(items, exact, strict=True)):
        at = pointer_to("/decisions", index)
        if isinstance(item, dict):
            reading.decisions.append(_decision(item, text, at, reading.violations))
        else:
            reading.violations.append(Violation(at, "must be an object"))
    return reading


def _decision(
    item: Mapping[str, JsonValue], exact: bytes, at: str, faults: list[Violation]
) -> pb.Decision:
    """A member that is null counts as left out; so do unknown members, `decided_by` too."""
    texts: dict[str, Any] = {name: _text(item.get(name), f"{at}/{name}", faults) for name in _TEXTS}
    word = item.get("decision")
    kind = _KINDS.get(word, types_pb2.DECISION_KIND_UNSPECIFIED) if isinstance(word, str) else 0
    decision = pb.Decision(
        decision=types_pb2.DecisionKind.ValueType(kind),
        **{name: text for name, text in texts.items() if text is not None},
    )
    args, value = item.get("args"), item.get("value")
    # Null is an answer, where it is the only one.
    answered = value is not None or (
        "value" in item and word == "respond" and texts["message"] is None
    )
    members = strict_json.raw_members(exact)
    if isinstance(args, dict):
        decision.args_json = members["args"]
    elif args is not None:
        faults.append(Violation(f"{at}/args", "must be an object"))
    if answered:
        decision.value_json = members["value"]
    return decision


def _text(value: JsonValue, pointer: str, faults: list[Violation]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        faults.append(Violation(pointer, "must be text"))
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.append(Violation(pointer, "has a surrogate that is not part of a pair"))
        return None
    return value
