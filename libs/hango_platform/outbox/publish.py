"""Outbox rows as CloudEvents on the bus (https://cloudevents.io, 1.0, binary mode)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hango_platform.bus.jetstream import BusUnavailable
from hango_platform.outbox.relay import Unreachable

if TYPE_CHECKING:
    from hango_platform.bus.jetstream import Bus
    from hango_platform.outbox.outbox import OutboxRow

KIND = "nats"
"""The kind of rows that this sends: the key is the subject, the payload a `hango.events.v1`
message as JSON."""


class Publisher:
    """Sends rows of one service to the bus. The row's id is the event's, on every attempt."""

    def __init__(self, bus: Bus, service: str) -> None:
        self._bus = bus
        self._source = f"/hango/{service}"

    async def __call__(self, row: OutboxRow) -> None:
        """Publish a row and wait until the stream has it. Raises Unreachable."""
        try:
            await self._bus.publish(row.key, row.payload, headers(row, self._source))
        except BusUnavailable as error:
            raise Unreachable(str(error)) from error


def headers(row: OutboxRow, source: str) -> dict[str, str]:
    """The event's attributes. Its type is the subject without the tenant, which is in the body."""
    body = json.loads(row.payload)
    found = {
        "Nats-Msg-Id": row.id,
        "ce-specversion": "1.0",
        "ce-id": row.id,
        "ce-source": source,
        "ce-type": _type(row.key),
        "ce-time": body["at"],
        "ce-subject": body.get("approval_id") or body["run_id"],
        "content-type": "application/json",
    }
    if row.traceparent:
        found["ce-traceparent"] = row.traceparent
    return found


def _type(subject: str) -> str:
    first, _, rest = subject.split(".", 2)
    return f"{first}.{rest}"
