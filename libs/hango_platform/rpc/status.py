"""Errors over gRPC: `google.rpc.Status` with one ErrorInfo and, where fields are at fault, a
BadRequest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from hango_platform import errors
from hango_platform.errors import HangoError, Violation

if TYPE_CHECKING:
    from grpc.aio import AioRpcError

DOMAIN = "hango"

_CODES: dict[int, grpc.StatusCode] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    422: grpc.StatusCode.FAILED_PRECONDITION,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}

# What a status that is not ours means: no server of ours wrote it.
_FOREIGN: dict[grpc.StatusCode, type[HangoError]] = {
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.OutcomeUnknown,
    grpc.StatusCode.CANCELLED: errors.OutcomeUnknown,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: errors.Forbidden,
}


def to_status(error: HangoError) -> grpc.Status:
    """The status that says all that the error says."""
    details = [
        _packed(
            error_details_pb2.ErrorInfo(
                reason=error.reason,
                domain=DOMAIN,
                metadata={name: json.dumps(value) for name, value in error.members.items()},
            )
        )
    ]
    if error.violations:
        fields = [
            error_details_pb2.BadRequest.FieldViolation(field=v.pointer, description=v.message)
            for v in error.violations
        ]
        details.append(_packed(error_details_pb2.BadRequest(field_violations=fields)))
    code = _CODES[error.status]
    return rpc_status.to_status(
        status_pb2.Status(code=code.value[0], message=error.detail, details=details)
    )


def from_rpc_error(error: AioRpcError) -> HangoError:
    """The error that the other side raised, as the same class; or what a foreign status amounts
    to.
    """
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # has all of Call that is used
    info, violations = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in status.details if status is not None else ():
        detail.Unpack(info)
        detail.Unpack(violations)
    if info.domain == DOMAIN and info.reason in errors.BY_REASON:
        return errors.BY_REASON[info.reason](
            error.details() or "",
            violations=[Violation(v.field, v.description) for v in violations.field_violations],
            **{name: json.loads(text) for name, text in info.metadata.items()},
        )
    if error.code() is grpc.StatusCode.UNAVAILABLE and not _never_sent(error.details() or ""):
        return errors.OutcomeUnknown("the connection was lost on the way")
    return _FOREIGN.get(error.code(), errors.Internal)()


def _never_sent(details: str) -> bool:
    """Whether the call surely did not reach a server. gRPC tells it by its words alone."""
    return "failed to connect" in details or "resolution failed" in details


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
