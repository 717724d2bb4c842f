"""Numbers for Prometheus."""

from __future__ import annotations

from typing import Any

from sketchlearn.core.packages import required

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The collector's counters; each collector of a process has its own."""

    def __init__(self) -> None:
        client = required("prometheus_client", "serve")
        self._client: Any = client
        self.registry = client.CollectorRegistry()
        own = {"registry": self.registry}
        self.reports = client.Counter("sketchlearn_reports", "Reports that were acknowledged", ["collection"], **own)
        self.records = client.Counter("sketchlearn_records", "Records in acknowledged reports", ["collection"], **own)
        self.refused = client.Counter("sketchlearn_refused", "Reports that were refused", ["collection", "kind"], **own)
        self.alarms = client.Counter("sketchlearn_alarms", "Alarms that were raised", ["collection"], **own)
        self.requests = client.Counter("sketchlearn_requests", "Requests by status", ["status"], **own)
        self.seconds = client.Histogram(
            "sketchlearn_report_seconds", "Seconds from a report's first byte to its answer", buckets=SECONDS, **own
        )
        self.group = client.Histogram("sketchlearn_commit_works", "Jobs of one commit", buckets=SIZES, **own)
        self.waiting = client.Gauge("sketchlearn_waiting", "Jobs that wait for the writer", **own)
        self.problems = client.Gauge("sketchlearn_problems", "Problems that background maintenance found", **own)

    def text(self) -> tuple[bytes, str]:
        """All numbers in the format of Prometheus, and its media type."""
        return self._client.generate_latest(self.registry), self._client.CONTENT_TYPE_LATEST
