"""Every series that hango exports, defined once. Prometheus names are the contract's with `.` as
`_`.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)


class Metrics:
    """The series of one service, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.approvals_pending = Gauge(
            "hango_approvals_pending",
            "Calls that wait for a person",
            ["tool"],
            registry=self.registry,
        )
        self.approvals_wait_time = Histogram(
            "hango_approvals_wait_time",
            "Seconds from the request to the decision",
            buckets=_WAITS,
            registry=self.registry,
        )
        self.approvals_decisions = Counter(
            "hango_approvals_decisions", "Decisions", ["decision", "tool"], registry=self.registry
        )
        self.approvals_expired = Counter(
            "hango_approvals_expired", "Calls that nobody decided", ["tool"], registry=self.registry
        )
        self.runs_by_state = Gauge("hango_runs_by_state", "Runs", ["state"], registry=self.registry)
        self.lane_slots = Gauge(
            "hango_lane_slots", "Slots of a lane", ["lane", "state"], registry=self.registry
        )
        self.outbox_oldest_age = Gauge(
            "hango_outbox_oldest_age", "Seconds since the oldest unsent row", registry=self.registry
        )
        self.outbox_backlog = Gauge("hango_outbox_backlog", "Unsent rows", registry=self.registry)
        self.outbox_dead = Gauge(
            "hango_outbox_dead", "Rows that were given up", registry=self.registry
        )
        self.reconciler_repairs = Counter(
            "hango_reconciler_repairs",
            "What a lost message had left behind",
            registry=self.registry,
        )
        self.approvals_faults = Gauge(
            "hango_approvals_faults",
            "What must never be, as the last check counted it",
            ["fault"],
            registry=self.registry,
        )
        self.sweeps = Counter(
            "hango_sweeps", "Rounds of the sweeper", ["sweep", "outcome"], registry=self.registry
        )
        self.rpcs = Counter(
            "hango_rpcs", "Calls answered", ["method", "code"], registry=self.registry
        )
        self.http_requests = Counter(
            "hango_http_requests",
            "Requests answered",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.streams = Gauge(
            "hango_streams", "Event streams that are open", ["kind"], registry=self.registry
        )

    def serve(self, addr: str) -> str:
        """Answer `GET /metrics` from a thread; returns the URL."""
        host, _, port = addr.rpartition(":")
        server, _thread = start_http_server(int(port), host, registry=self.registry)
        return f"http://{host}:{server.server_port}/metrics"
