"""What a call can be refused with: one class for each reason of the API.

HangoError
├── InvalidRequest            400
│   ├── DecisionNotAllowed
│   ├── EditInvalid
│   ├── EditOutOfScope
│   └── AnswerInvalid
├── Unauthenticated           401
├── Forbidden                 403
│   ├── NotAnApprover
│   └── SecondPartyRequired
├── NotFound                  404
├── Conflict                  409
│   ├── ApprovalsIncomplete
│   ├── ApprovalsClosed
│   ├── ArgumentsChanged
│   ├── RunFinished
│   ├── ThreadBusy
│   └── IdempotencyInFlight
├── IdempotencyMismatch       422
├── Internal                  500
├── Unavailable               503, or nothing answered
└── OutcomeUnknown            504
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request: a JSON pointer into its body, and what is wrong there."""

    pointer: str
    message: str


class HangoError(Exception):
    """A refusal. `problem` is the whole document (RFC 9457), further members included."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        self.reason = str(problem.get("reason") or "")
        self.detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
        self.faults = tuple(
            Fault(str(each.get("pointer", "")), str(each.get("message", "")))
            for each in problem.get("errors") or ()
            if isinstance(each, dict)
        )
        told = "".join(f"\n  {fault.pointer or '/'}: {fault.message}" for fault in self.faults)
        super().__init__(f"{self.detail}{told}")


class InvalidRequest(HangoError):
    """A field is at fault; `faults` say which."""


class DecisionNotAllowed(InvalidRequest):
    """The rule does not allow this decision."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """The decisions that it does."""
        return tuple(self.problem.get("allowed") or ())


class EditInvalid(InvalidRequest):
    """The edited arguments break the tool's schema."""


class EditOutOfScope(InvalidRequest):
    """The rule would not have stopped the edited call, or it names another tool."""


class AnswerInvalid(InvalidRequest):
    """The answer breaks the question's schema."""


class Unauthenticated(HangoError):
    """No credentials, or bad ones."""


class Forbidden(HangoError):
    """Your role does not allow this."""


class NotAnApprover(Forbidden):
    """Your role does not allow deciding."""


class SecondPartyRequired(Forbidden):
    """Somebody else than the run's creator must decide."""


class NotFound(HangoError):
    """Unknown, or not yours to see."""


class Conflict(HangoError):
    """Something that is there already stands in the way."""


class ApprovalsIncomplete(Conflict):
    """Some pending calls had no decision. Nothing was stored."""

    @property
    def remaining(self) -> tuple[Mapping[str, Any], ...]:
        """Those calls: `approval_id`, `tool_call_id`, `tool_name`."""
        return tuple(self.problem.get("remaining") or ())


class ApprovalsClosed(Conflict):
    """There is nothing to decide any more."""

    @property
    def state(self) -> str:
        """How the suspension stands, else the run."""
        return str(self.problem.get("state") or "")


class ArgumentsChanged(Conflict):
    """The arguments are not those that you were shown."""


class RunFinished(Conflict):
    """The run is over."""


class ThreadBusy(Conflict):
    """A run of this thread is still going on."""


class IdempotencyInFlight(Conflict):
    """The first request with this key is still going on."""


class IdempotencyMismatch(HangoError):
    """The key was used for another request."""


class Internal(HangoError):
    """A fault of the service."""


class Unavailable(HangoError):
    """It could not be answered; nothing was changed."""


class OutcomeUnknown(HangoError):
    """It is not known whether this was done."""


def _tree(root: type[HangoError]) -> Iterator[type[HangoError]]:
    for cls in root.__subclasses__():
        yield cls
        yield from _tree(cls)


BY_REASON: dict[str, type[HangoError]] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper(): cls for cls in _tree(HangoError)
}
_BY_STATUS = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: Unavailable,
    504: OutcomeUnknown,
}


def refusal(status: int, problem: Mapping[str, Any]) -> HangoError:
    """The exception for an answer; one without a known reason goes by its status.

    >>> refusal(409, {"reason": "APPROVALS_CLOSED", "detail": "too late", "state": "expired"}).state
    'expired'
    >>> type(refusal(404, {})).__name__
    'NotFound'
    """
    known = BY_REASON.get(str(problem.get("reason"))) or _BY_STATUS.get(status, HangoError)
    return known(status, problem)
