"""Whether a set of decisions may stand: contract, section 5, in its order. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hango_platform.errors import (
    AnswerInvalid,
    ApprovalsClosed,
    ApprovalsIncomplete,
    ArgumentsChanged,
    DecisionNotAllowed,
    EditInvalid,
    EditOutOfScope,
    InvalidRequest,
    Violation,
)
from hango_policy import strict_json
from hango_policy.errors import JsonRefused, SchemaRefused
from hango_policy.rules import in_scope
from hango_policy.schemas import compile_schema

from hango_approvals.domain.suspension import ApprovalKind, DecisionKind, Ruling, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hango_policy.strict_json import JsonValue

    from hango_approvals.domain.suspension import Approval, Call, Suspension

MAX_MESSAGE_BYTES = 64 * 1024
"""The longest message of a decision, in bytes of UTF-8."""
MAX_DECISIONS = 1000
_MAX_ID = 512


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision as it was sent. `kind` is None where it is missing or unknown; `args` and
    `value` are exact JSON text, None where absent.
    """

    approval_id: str = ""
    tool_call_id: str | None = None
    kind: DecisionKind | None = None
    args: bytes | None = None
    message: str | None = None
    value: bytes | None = None
    tool_name: str | None = None
    arguments_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class _Named:
    """A decision, the approval it names, and where it stands in the body."""

    pointer: str
    decision: Decision
    approval: Approval


def check_shape(decisions: Sequence[Decision]) -> None:
    """Refuse what is wrong with the decisions whatever they are about. Raises InvalidRequest."""
    if len(decisions) > MAX_DECISIONS:
        why = f"has more than {MAX_DECISIONS} decisions"
        raise InvalidRequest(violations=[Violation("/decisions", why)])
    violations = [v for i, d in enumerate(decisions) for v in _faults(d, f"/decisions/{i}")]
    if violations:
        raise InvalidRequest(violations=violations)


def _faults(decision: Decision, at: str) -> list[Violation]:
    found = []
    if not decision.approval_id and decision.tool_call_id is None:
        found.append(Violation(at, "names no call: tool_call_id or approval_id is needed"))
    if max(len(decision.approval_id), len(decision.tool_call_id or "")) > _MAX_ID:
        found.append(Violation(at, "names a call by an id that is too long"))
    if decision.kind is None:
        found.append(Violation(f"{at}/decision", "must be approve, edit, reject or respond"))
    if decision.kind is DecisionKind.EDIT and decision.args is None:
        found.append(Violation(f"{at}/args", "is required to edit"))
    if decision.kind is not DecisionKind.EDIT and decision.args is not None:
        found.append(Violation(f"{at}/args", "is allowed only to edit"))
    if decision.kind is not DecisionKind.RESPOND and decision.value is not None:
        found.append(Violation(f"{at}/value", "is allowed only to respond"))
    if decision.message is not None and (fault := _text_fault(decision.message)):
        found.append(Violation(f"{at}/message", fault))
    return found


def _text_fault(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "has a surrogate that is not part of a pair"
    if "\x00" in text:
        return "has a NUL character"
    return f"is longer than {MAX_MESSAGE_BYTES} bytes" if size > MAX_MESSAGE_BYTES else ""


def rule_on(
    suspension: Suspension,
    decisions: Sequence[Decision],
    *,
    earlier: State | None = None,
) -> list[Ruling]:
    """The rulings that these decisions amount to, one for each approval, in their order.

    `earlier` is the state of an earlier suspension of this run where a decision names one of its
    approvals. The decisions are well-formed already. Raises ApprovalsClosed, InvalidRequest,
    ArgumentsChanged, DecisionNotAllowed, EditInvalid, EditOutOfScope, AnswerInvalid or
    ApprovalsIncomplete; all calls pass one check before any meets the next.
    """
    closed = earlier or suspension.state
    if closed is not State.PENDING:
        raise ApprovalsClosed(state=closed.value)
    named = _resolve(suspension, decisions)
    _check_digests(named)
    _check_allowed(named)
    _check_edits([n for n in named if n.decision.kind is DecisionKind.EDIT])
    _check_tool_names(named)
    _check_answers([n for n in named if n.decision.kind is DecisionKind.RESPOND])
    by_approval = {n.approval.id: n.decision for n in named}
    _check_complete(suspension, by_approval)
    return [_ruling(by_approval[a.id]) for a in suspension.approvals]


def _resolve(suspension: Suspension, decisions: Sequence[Decision]) -> list[_Named]:
    named: list[_Named] = []
    violations: list[Violation] = []
    for i, decision in enumerate(decisions):
        at = f"/decisions/{i}"
        found = find(suspension, decision)
        if isinstance(found, str):
            part = "approval_id" if decision.approval_id else "tool_call_id"
            violations.append(Violation(f"{at}/{part}", found))
        elif any(n.approval.id == found.id for n in named):
            violations.append(Violation(at, "names a call that has a decision already"))
        else:
            named.append(_Named(at, decision, found))
    if violations:
        raise InvalidRequest(violations=violations)
    return named


def find(suspension: Suspension, decision: Decision) -> Approval | str:
    """The approval that a decision names, or why it names none."""
    same_call = [
        a
        for a in suspension.approvals
        if decision.tool_call_id is None or a.call.tool_call_id == decision.tool_call_id
    ]
    if decision.approval_id:
        known = any(a.id == decision.approval_id for a in suspension.approvals)
        matches = [a for a in same_call if a.id == decision.approval_id]
        if not matches:
            return "names another call than tool_call_id" if known else "is not waiting here"
        return matches[0]
    if len(same_call) > 1:
        return "is the id of more than one call: name it by approval_id"
    return same_call[0] if same_call else "is not waiting here"


def _check_digests(named: Sequence[_Named]) -> None:
    for n in named:
        given = n.decision.arguments_sha256
        if given is not None and given.lower() != n.approval.call.arguments_sha256:
            raise ArgumentsChanged(
                approval_id=n.approval.id, tool_call_id=n.approval.call.tool_call_id
            )


def _check_allowed(named: Sequence[_Named]) -> None:
    for n in named:
        if n.decision.kind not in n.approval.call.allowed:
            raise DecisionNotAllowed(
                violations=[Violation(f"{n.pointer}/decision", "is not allowed for this call")],
                allowed=[kind.value for kind in n.approval.call.allowed],
            )


def _check_edits(edits: Sequence[_Named]) -> None:
    violations: list[Violation] = []
    parsed: list[tuple[_Named, JsonValue]] = []
    for n in edits:
        faults, arguments = _read_arguments(n)
        violations += faults
        parsed.append((n, arguments))
    if violations:
        raise EditInvalid(violations=violations)
    outside = [
        Violation(f"{n.pointer}/args", "is not a call that the rule would have stopped")
        for n, arguments in parsed
        if not in_scope(_stored(n.approval.call.rule), arguments)
    ]
    if outside:
        raise EditOutOfScope(violations=outside)


def _read_arguments(n: _Named) -> tuple[list[Violation], JsonValue]:
    at = f"{n.pointer}/args"
    try:
        arguments = strict_json.parse(n.decision.args or b"")
    except JsonRefused as error:
        return [Violation(at, error.reason)], None
    if not isinstance(arguments, dict):
        return [Violation(at, "is not an object")], None
    return _violations(n.approval.call.parameters, arguments, at), arguments


def _violations(schema: bytes, value: JsonValue, at: str) -> list[Violation]:
    """What is wrong with a value by a stored schema; one that cannot be used lets nothing pass."""
    try:
        compiled = compile_schema(_stored(schema))
    except SchemaRefused as error:
        return [Violation(at, f"cannot be checked: the stored schema {error.reason}")]
    return [Violation(v.pointer, v.message) for v in compiled.violations(value, at)]


def _stored(text: bytes) -> JsonValue:
    return strict_json.parse(text, max_bytes=len(text))


def _check_tool_names(named: Sequence[_Named]) -> None:
    other = [
        Violation(f"{n.pointer}/tool_name", "is not the tool of this call")
        for n in named
        if n.decision.tool_name is not None and n.decision.tool_name != n.approval.call.tool_name
    ]
    if other:
        raise EditOutOfScope(violations=other)


def _check_answers(answers: Sequence[_Named]) -> None:
    shape: list[Violation] = []
    invalid: list[Violation] = []
    for n in answers:
        if n.approval.call.kind is ApprovalKind.TOOL_CALL:
            shape += _text_answer_faults(n)
        elif (n.decision.value is None) == (n.decision.message is None):
            shape.append(Violation(n.pointer, "needs either value or message"))
        else:
            invalid += _answer_faults(n)
    if shape:
        raise InvalidRequest(violations=shape)
    if invalid:
        raise AnswerInvalid(violations=invalid)


def _text_answer_faults(n: _Named) -> list[Violation]:
    found = []
    if n.decision.value is not None:
        found.append(Violation(f"{n.pointer}/value", "is allowed only for a question"))
    if n.decision.message is None:
        found.append(Violation(f"{n.pointer}/message", "is required to respond"))
    return found


def _answer_faults(n: _Named) -> list[Violation]:
    answer: JsonValue = n.decision.message
    at = f"{n.pointer}/message"
    if n.decision.value is not None:
        at = f"{n.pointer}/value"
        try:
            answer = strict_json.parse(n.decision.value)
        except JsonRefused as error:
            return [Violation(at, error.reason)]
    schema = _question_schema(n.approval.call)
    return _violations(schema, answer, at) if schema is not None else []


def _question_schema(call: Call) -> bytes | None:
    asked = _stored(call.input or b"null")
    schema = asked.get("schema") if isinstance(asked, dict) else None
    # `{}` and an absent schema both let any answer pass.
    return strict_json.dumps(schema) if schema else None


def _check_complete(suspension: Suspension, decided: dict[str, Decision]) -> None:
    remaining = [
        {
            "approval_id": a.id,
            "tool_call_id": a.call.tool_call_id,
            "tool_name": a.call.tool_name,
        }
        for a in suspension.approvals
        if a.id not in decided
    ]
    if remaining:
        raise ApprovalsIncomplete(remaining=remaining)


def _ruling(decision: Decision) -> Ruling:
    if decision.kind is None:  # pragma: no cover - refused by check_shape
        raise InvalidRequest
    digest = hashlib.sha256(decision.args).hexdigest() if decision.args is not None else None
    return Ruling(decision.kind, decision.args, digest, decision.message, decision.value)
