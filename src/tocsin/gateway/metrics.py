"""Prometheus metrics of the server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """All counters of one server."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        by = ["route", "method", "status"]
        self.requests = Counter("tocsin_requests", "HTTP requests.", by, registry=own)
        self.refused = Counter("tocsin_refused", "Requests and frames refused.", ["code"], registry=own)
        self.rows = Counter("tocsin_rows", "Rows accepted.", ["source"], registry=own)
        self.changes = Counter("tocsin_changes", "Changes emitted.", ["source"], registry=own)
        self.delivered = Counter("tocsin_delivered", "Batches of changes passed to feeds.", registry=own)
        self.slow = Counter("tocsin_slow", "Feeds squashed or disconnected.", ["what"], registry=own)
        self.connections = Gauge("tocsin_connections", "Open connections.", ["kind"], registry=own)
        self.subscriptions = Gauge("tocsin_subscriptions", "Live subscriptions.", registry=own)
        self.log_bytes = Gauge("tocsin_log_bytes", "Bytes of log that a restart would replay.", registry=own)
        self.nats = Gauge("tocsin_nats_up", "Whether NATS is connected, if it is configured.", registry=own)
        self.commits = Histogram(
            "tocsin_commit_seconds",
            "Seconds from the start of a round to its fsync.",
            buckets=SECONDS,
            registry=own,
        )

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self._registry)
