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
        self.rows = Counter("tocsin_rows", "Rows taken in.", ["source"], registry=own)
        self.changes = Counter("tocsin_changes", "Changes caused.", ["source"], registry=own)
        self.delivered = Counter("tocsin_delivered", "Batches of changes handed to feeds.", registry=own)
        self.slow = Counter("tocsin_slow", "Feeds squashed or disconnected.", ["what"], registry=own)
        self.connections = Gauge("tocsin_connections", "Open connections.", ["kind"], registry=own)
        self.subscriptions = Gauge("tocsin_subscriptions", "Subscriptions kept.", registry=own)
        self.log_bytes = Gauge("tocsin_log_bytes", "Bytes that a restart would read.", registry=own)
        self.nats = Gauge("tocsin_nats_up", "Whether NATS is there, if it is asked for.", registry=own)
        self.commits = Histogram(
            "tocsin_commit_seconds",
            "From taking up jobs to having them on disk.",
            buckets=SECONDS,
            registry=own,
        )

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self._registry)
