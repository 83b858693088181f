"""The errors that cross a service's border, as one tree.

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
    ├── Unavailable               503
    └── OutcomeUnknown            504

An error keeps its class over gRPC: `rpc.status` writes it as `google.rpc.ErrorInfo` and
`BadRequest`, and raises the same class with the same members on the other side. No error ever
carries a value of a tool call's arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


READ_ONLY = "this key may only read"


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of a request: a JSON pointer into the body (empty for all of it), and what is
    wrong.
    """

    pointer: str
    message: str


class HangoError(Exception):
    """A refusal that the caller can understand.

    `detail` is for people; `violations` say which fields are at fault; `members` are further facts
    for programs, all JSON values, and become members of the problem document.
    """

    reason: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong here"

    def __init__(
        self, detail: str = "", *, violations: Iterable[Violation] = (), **members: Any
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.violations = tuple(violations)
        self.members = members

    @classmethod
    def slug(cls) -> str:
        """The reason as it stands in a problem's type: lower case with hyphens."""
        return cls.reason.lower().replace("_", "-")


class InvalidRequest(HangoError):
    """A field or a parameter is at fault."""

    reason = "INVALID_REQUEST"
    status = 400
    title = "The request is not valid"


class DecisionNotAllowed(InvalidRequest):
    """The rule that stopped the call does not allow this decision; `allowed` lists those that it
    does.
    """

    reason = "DECISION_NOT_ALLOWED"
    title = "This decision is not allowed for this call"


class EditInvalid(InvalidRequest):
    """The edited arguments break the tool's schema."""

    reason = "EDIT_INVALID"
    title = "The edited arguments do not fit the tool"


class EditOutOfScope(InvalidRequest):
    """The edited call is not one that the rule would have stopped, or names another tool."""

    reason = "EDIT_OUT_OF_SCOPE"
    title = "The edit leaves what the rule lets people decide"


class AnswerInvalid(InvalidRequest):
    """The answer breaks the question's schema."""

    reason = "ANSWER_INVALID"
    title = "The answer does not fit the question"


class Unauthenticated(HangoError):
    """No credentials, or bad ones."""

    reason = "UNAUTHENTICATED"
    status = 401
    title = "Credentials are missing or not valid"


class Forbidden(HangoError):
    """The caller's role does not allow this."""

    reason = "FORBIDDEN"
    status = 403
    title = "Your role does not allow this"


class NotAnApprover(Forbidden):
    """The caller's role does not allow deciding."""

    reason = "NOT_AN_APPROVER"
    title = "Your role does not allow deciding"


class SecondPartyRequired(Forbidden):
    """The tenant demands that somebody else than the run's creator decides."""

    reason = "SECOND_PARTY_REQUIRED"
    title = "Somebody else must decide on a run that you created"


class NotFound(HangoError):
    """Unknown, invisible, or of another tenant: no difference is shown."""

    reason = "NOT_FOUND"
    status = 404
    title = "There is no such thing, or you may not see it"


class Conflict(HangoError):
    """Something that already exists stands in the way."""

    reason = "CONFLICT"
    status = 409
    title = "This conflicts with what is there"


class ApprovalsIncomplete(Conflict):
    """Some pending calls have no decision; `remaining` lists them. Nothing was stored."""

    reason = "APPROVALS_INCOMPLETE"
    title = "Every pending call needs a decision"


class ApprovalsClosed(Conflict):
    """Nothing of this run is open for a decision; `state` is the suspension's, else the run's."""

    reason = "APPROVALS_CLOSED"
    title = "There is nothing to decide here any more"


class ArgumentsChanged(Conflict):
    """The arguments are not those that were shown to the decider."""

    reason = "ARGUMENTS_CHANGED"
    title = "The arguments are not those that were shown"


class RunFinished(Conflict):
    """The run is over."""

    reason = "RUN_FINISHED"
    title = "The run is over"


class ThreadBusy(Conflict):
    """The thread has a live run."""

    reason = "THREAD_BUSY"
    title = "A run of this thread is still going on"


class IdempotencyInFlight(Conflict):
    """The first request with this key has not been answered yet."""

    reason = "IDEMPOTENCY_IN_FLIGHT"
    title = "The first request with this idempotency key is still going on"


class IdempotencyMismatch(HangoError):
    """The key was used for another request."""

    reason = "IDEMPOTENCY_MISMATCH"
    status = 422
    title = "This idempotency key was used for another request"


class Internal(HangoError):
    """A fault of the service. The detail says nothing; the log does."""

    reason = "INTERNAL"


class Unavailable(HangoError):
    """The owner of the data cannot be reached or is overloaded; nothing was changed. Try again."""

    reason = "UNAVAILABLE"
    status = 503
    title = "This cannot be answered just now"


class OutcomeUnknown(HangoError):
    """The deadline passed in flight. Repeat with the same idempotency key to learn the outcome."""

    reason = "OUTCOME_UNKNOWN"
    status = 504
    title = "It is not known whether this was done"


def _tree(root: type[HangoError]) -> Iterable[type[HangoError]]:
    for cls in root.__subclasses__():
        yield cls
        yield from _tree(cls)


BY_REASON: dict[str, type[HangoError]] = {cls.reason: cls for cls in _tree(HangoError)}
