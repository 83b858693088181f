"""What requests of several RPCs have in common."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hango_platform.errors import InvalidRequest, Violation

from hango_runner.domain.run import Idempotency

if TYPE_CHECKING:
    from hango.runs.v1 import history_pb2, runs_pb2

_MOST_KEY_CHARS = 255


def repeat_of(
    route: str,
    request: runs_pb2.StartRunRequest | runs_pb2.CancelRunRequest | history_pb2.ForkRunRequest,
) -> Idempotency | None:
    """What makes the request safe to repeat; None without a key. Raises InvalidRequest."""
    key = request.idempotency_key
    if not key:
        return None
    if len(key) > _MOST_KEY_CHARS or not key.isprintable():
        msg = "an idempotency key has at most 255 printable characters"
        raise InvalidRequest(msg, violations=[Violation("/idempotency_key", msg)])
    digest = request.request_digest
    if not digest:
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
    return Idempotency(route, key, digest)
