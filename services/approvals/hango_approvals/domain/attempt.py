"""What somebody tries to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hango_platform.errors import Violation

    from hango_approvals.domain.deciding import Decision


@dataclass(frozen=True, slots=True)
class Attempt:
    """Decisions on a run, as they were sent. `violations` are faults that an edge found in the
    body.
    """

    run_id: str
    decisions: tuple[Decision, ...]
    idempotency_key: str = ""
    request_digest: bytes = b""
    violations: tuple[Violation, ...] = ()

    def named_once(self) -> Decision | None:
        """The one decision that names a call, where the attempt is about a single one."""
        names = {(d.approval_id, d.tool_call_id) for d in self.decisions}
        named = names - {("", None)}
        return self.decisions[0] if len(names) == len(named) == 1 else None
