"""Enums, times and page tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NoReturn

from google.protobuf.timestamp_pb2 import Timestamp
from hango.common.v1 import access_pb2, types_pb2
from hango_platform.errors import InvalidRequest, Violation
from hango_platform.ids import is_id
from hango_platform.rpc import paging
from hango_platform.rpc.caller import Role

from hango_approvals.domain.suspension import ApprovalKind, DecisionKind, Execution, State


def state_to_proto(state: State) -> types_pb2.ApprovalState.ValueType:
    """A state on the wire."""
    return types_pb2.ApprovalState.Value(f"APPROVAL_STATE_{state.name}")


def state_from_proto(value: int) -> State | None:
    """A state to filter by; None for unset. Raises InvalidRequest for an unknown one."""
    if value == types_pb2.APPROVAL_STATE_UNSPECIFIED:
        return None
    state = _STATES.get(types_pb2.ApprovalState.ValueType(value))
    if state is None:
        refuse("/state", "must be pending, decided, expired or withdrawn")
    return state


def decision_to_proto(kind: DecisionKind | None) -> types_pb2.DecisionKind.ValueType:
    """A kind of decision on the wire; None is unset."""
    if kind is None:
        return types_pb2.DECISION_KIND_UNSPECIFIED
    return types_pb2.DecisionKind.Value(f"DECISION_KIND_{kind.name}")


_STATES = {types_pb2.ApprovalState.Value(f"APPROVAL_STATE_{s.name}"): s for s in State}
_DECISIONS = {types_pb2.DecisionKind.Value(f"DECISION_KIND_{k.name}"): k for k in DecisionKind}
_KINDS = {types_pb2.ApprovalKind.Value(f"APPROVAL_KIND_{k.name}"): k for k in ApprovalKind}
_EXECUTIONS = {types_pb2.ExecutionState.Value(f"EXECUTION_STATE_{e.name}"): e for e in Execution}


def decision_from_proto(value: int) -> DecisionKind | None:
    """A kind of decision; None where it is missing or unknown."""
    return _DECISIONS.get(types_pb2.DecisionKind.ValueType(value))


def kind_to_proto(kind: ApprovalKind) -> types_pb2.ApprovalKind.ValueType:
    """A kind of approval on the wire."""
    return types_pb2.ApprovalKind.Value(f"APPROVAL_KIND_{kind.name}")


def kind_from_proto(value: int) -> ApprovalKind | None:
    """A kind of approval; None where it is missing or unknown."""
    return _KINDS.get(types_pb2.ApprovalKind.ValueType(value))


def execution_to_proto(state: Execution) -> types_pb2.ExecutionState.ValueType:
    """An execution state on the wire."""
    return types_pb2.ExecutionState.Value(f"EXECUTION_STATE_{state.name}")


def execution_from_proto(value: int) -> Execution | None:
    """An execution state; None where it is missing or unknown."""
    return _EXECUTIONS.get(types_pb2.ExecutionState.ValueType(value))


def role_to_proto(role: Role) -> access_pb2.Role.ValueType:
    """A role on the wire."""
    return access_pb2.Role.ValueType(int(role))


def role_from_proto(value: int, pointer: str = "/role") -> Role:
    """A role that must be given. Raises InvalidRequest."""
    try:
        return Role(value)
    except ValueError:
        refuse(pointer, "must be member, admin or owner")


def time_to_proto(at: datetime | None) -> Timestamp | None:
    """A time on the wire; None leaves the field unset."""
    if at is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp


def time_from_proto(stamp: Timestamp) -> datetime:
    """A time, in UTC."""
    return stamp.ToDatetime(tzinfo=UTC)


def refuse(pointer: str, why: str) -> NoReturn:
    """Raise InvalidRequest for one field at fault."""
    raise InvalidRequest(violations=[Violation(pointer, why)])


def required_id(text: str, pointer: str) -> str:
    """An id that must be given. Raises InvalidRequest."""
    if not is_id(text):
        refuse(pointer, "must be a UUID")
    return text


def optional_id(text: str, pointer: str) -> str | None:
    """An id, None for empty. Raises InvalidRequest."""
    return required_id(text, pointer) if text else None


def id_from_token(token: str) -> str | None:
    """The id that a page begins behind; None for the first page. Raises InvalidRequest."""
    match paging.from_token(token, str):
        case None:
            return None
        case (str(found),) if is_id(found):
            return found
        case _:
            refuse("/page_token", "is not a token of this list")


def number_from_token(token: str) -> int | None:
    """The number that a page begins before; None for the first page. Raises InvalidRequest."""
    match paging.from_token(token, int):
        case None:
            return None
        case (int(found),) if 0 < found < 2**63:
            return found
        case _:
            refuse("/page_token", "is not a token of this list")


def place_from_token(token: str) -> tuple[datetime, str] | None:
    """The time and id that a page begins behind; None for the first page. Raises
    InvalidRequest.
    """
    match paging.from_token(token, datetime, str):
        case None:
            return None
        case (datetime() as at, str(found)) if at.tzinfo is not None and is_id(found):
            return at, found
        case _:
            refuse("/page_token", "is not a token of this list")


def plain(text: str, pointer: str) -> str | None:
    """A text to filter by; None for empty. Raises InvalidRequest for what no column can hold."""
    if "\x00" in text:
        refuse(pointer, "has a NUL character")
    return text or None
