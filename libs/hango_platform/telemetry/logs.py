"""JSON lines on stderr. A line carries ids and states, never a value of a tool call's arguments."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from hango_platform.telemetry import trace

_PLAIN = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "taskName",
    "color_message",
}


class JsonLines(logging.Formatter):
    """One JSON object a record: time, level, service, logger, message, trace id, and the record's
    extras.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
            "trace_id": trace.trace_id(),
        }
        line |= {k: v for k, v in record.__dict__.items() if k not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(service: str, level: str) -> None:
    """Send every logger's lines of this level and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("nats").setLevel("WARNING")
