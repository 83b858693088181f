"""The fault points and kinds, and what must have become of a call after each."""

from __future__ import annotations

from dataclasses import dataclass

from hango_platform.faults import KINDS

RUNNER = (
    "before_claim",
    "before_answer",
    "after_answer",
    "before_suspend",
    "after_suspend",
    "after_open_call",
    "before_opened",
    "after_opened",
    "before_resume",
    "after_resume",
    "before_batch",
    "after_batch",
    "before_finish",
    "after_finish",
    "after_report",
    "before_mark",
)
EXECUTION = (
    "before_journal_commit",
    "after_journal_commit",
    "after_effect",
    "before_result",
    "after_result",
)
APPROVALS = ("before_open", "after_open", "before_decide", "after_decide", "after_publish")
EXPIRY = {
    "before_expire": "approvals",
    "after_expire": "approvals",
    "before_end": "runner",
    "after_end": "runner",
    "after_sweep": "sweeper",
}
TOOLS = {"once": "count__fire", "keyed": "count__put", "transactional": "write_file"}

# A fault of our own inside the worker's task is not tried again: the run ends, and says so.
OURS = {
    "before_answer",
    "after_answer",
    "before_suspend",
    "before_batch",
    "after_batch",
    "before_finish",
    *EXECUTION,
}


@dataclass(frozen=True)
class Case:
    """One fault in one service, while a call of one effect is on its way."""

    service: str
    point: str
    kind: str
    effect: str = "once"

    def __str__(self) -> str:
        return f"{self.point}-{self.kind}-{self.effect}"

    @property
    def fault(self) -> dict[str, str]:
        """For the service's environment."""
        return {self.service: f"{self.point}:{self.kind}"}

    @property
    def ends(self) -> str:
        """How the run must end."""
        ours = self.kind == "raise" and self.service == "runner" and self.point in OURS
        return "failed" if ours else "succeeded"

    @property
    def execution(self) -> set[str]:
        """What may be known of the call at the end. `unknown` is for calls that must not be
        repeated and whose result was lost on its way, and for those that a failed run left.
        """
        if self.ends == "failed":
            return self._left
        lost = self.kind != "raise" and self.point in (
            "after_journal_commit",
            "after_effect",
            "before_result",
        )
        told = self.kind == "execute_and_timeout" and self.point == "before_result"
        told_of_nothing = (
            self.kind == "execute_and_timeout" and self.point == "before_journal_commit"
        )
        if self.effect == "once" and ((lost and not told) or told_of_nothing):
            return {"unknown"}
        return {"succeeded"}

    @property
    def _left(self) -> set[str]:
        match self.point:
            case "before_answer" | "after_answer" | "before_suspend":
                return set()  # there is no gated call yet
            case "before_journal_commit":
                return {"skipped"}
            case "after_journal_commit" | "after_effect" | "before_result":
                rolled_back = self.effect == "transactional"
                return {"skipped"} if rolled_back else {"unknown"}
            case _:
                return {"succeeded"}


CASES = [
    *(Case("runner", p, k) for p in RUNNER for k in KINDS),
    *(Case("runner", p, k, e) for p in EXECUTION for k in KINDS for e in ("once", "keyed")),
    *(Case("runner", p, k, "transactional") for p in EXECUTION[3:] for k in KINDS),
    *(Case("approvals", p, k) for p in APPROVALS for k in KINDS),
]
EXPIRING = [Case(service, p, k) for p, service in EXPIRY.items() for k in KINDS]
