"""Metrics for monitoring, in the format of Prometheus.

Every metric is described once in :data:`METRICS`; the table in ``docs/operations.md`` has the same names (a test compares
them).  What a process counts itself stands in :class:`Metrics`; what the database or the disk knows is asked for when
the metrics are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric that is computed when it is read."""

    kind: Literal["gauge", "counter"]
    text: str
    label: str = ""


#: What every service is asked for; the names without ``cobblestone_``.
COMMON_METRICS: Mapping[str, MetricInfo] = {
    "up_seconds": MetricInfo("gauge", "Seconds since the server started."),
    "draining": MetricInfo("gauge", "1 while the server finishes its requests before it stops."),
    "http_requests_in_progress": MetricInfo("gauge", "Requests in progress."),
    "disk_free_bytes": MetricInfo("gauge", "Free bytes on the disk of the service's folder."),
    "daemon_up": MetricInfo(
        "gauge", "1: the daemon makes its rounds without errors; 0: it does not.", "daemon"
    ),
    "daemon_last_beat_seconds": MetricInfo("gauge", "Unix time of the daemon's last round.", "daemon"),
    "daemon_steps": MetricInfo("counter", "Steps done by the daemon.", "daemon"),
    "daemon_errors": MetricInfo("counter", "Steps that ended with an error.", "daemon"),
    "warning": MetricInfo("gauge", "1 for each current warning.", "code"),
}

#: What services with a database are asked for too.
DATABASE_METRICS: Mapping[str, MetricInfo] = {
    "write_backlog": MetricInfo("gauge", "Writes waiting for the database."),
    "database_bytes": MetricInfo("gauge", "Size of the database with its log."),
}

#: What a project is asked for.
METRICS: Mapping[str, MetricInfo] = {
    **COMMON_METRICS,
    **DATABASE_METRICS,
    "results": MetricInfo("gauge", "Results by state: unsent, in_progress.", "state"),
    "workunits": MetricInfo(
        "gauge",
        "Workunits by what waits for them: transition, validation, assimilation, deletion.",
        "waiting_for",
    ),
    "oldest_unsent_seconds": MetricInfo("gauge", "Age of the result that will be sent next."),
    "transitioner_backlog_seconds": MetricInfo(
        "gauge", "How long the workunit that is due first has been waiting for the transitioner."
    ),
    "results_created": MetricInfo("counter", "Results created since the project began."),
    "results_sent": MetricInfo("counter", "Results sent to hosts by this process."),
    "results_reported": MetricInfo("counter", "Results reported by hosts to this process."),
    "credit_entries": MetricInfo("counter", "Entries of the credit ledger since the project began."),
    "users": MetricInfo("gauge", "Accounts."),
    "hosts": MetricInfo("gauge", "Computers: known, and active (in contact within a day).", "state"),
    "batches_open": MetricInfo("gauge", "Batches that are not finished."),
    "results_last_day": MetricInfo(
        "gauge", "Results that ended within a day: good, error, no_reply, invalid.", "outcome"
    ),
    "disk_limit_bytes": MetricInfo(
        "gauge", "Below this number of free bytes, uploads and submissions are deferred."
    ),
    "export_last_seconds": MetricInfo(
        "gauge", "Unix time of the rows in the export for statistics sites; 0: there is none."
    ),
    "export_duration_seconds": MetricInfo("gauge", "Duration of that export."),
    "export_records": MetricInfo("gauge", "Records in it by table: user, host, team and so on.", "table"),
}

#: Values by metric; with a label, values by label.
Figures = Mapping[str, float | Mapping[str, float]]


class ProcessMetrics:
    """The counters of one process.  Each has its own registry, so that several projects can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "cobblestone_http_requests",
            "HTTP requests by part of the server and status.",
            ("part", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "cobblestone_http_request_seconds",
            "Time from a request's first byte to the answer's last.",
            ("part",),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self._parts: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}
        self.requests_in_progress = 0
        self.n_sent = 0  #: results handed to hosts
        self.n_reported = 0  #: results that hosts reported
        self.n_requests = 0
        self.n_errors = 0

    def request(self, part: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        counter = self._parts.get((part, status))
        if counter is None:  # finding a child by its labels costs more than counting
            counter = self._parts[part, status] = self._requests.labels(part, str(status))
            self._timers.setdefault(part, self._seconds.labels(part))
        counter.inc()
        self._timers[part].observe(seconds)
        self.n_requests += 1
        self.n_errors += status >= 500

    def exposition(self, figures: Figures, described: Mapping[str, MetricInfo] = METRICS) -> bytes:
        """Return the text for Prometheus: the counters, and ``figures``, described by ``described``."""
        registry = CollectorRegistry()
        registry.register(_Figures(figures, described))
        return generate_latest(self.registry) + generate_latest(registry)


class _Figures(Collector):
    def __init__(self, figures: Figures, described: Mapping[str, MetricInfo]) -> None:
        self._figures = figures
        self._described = described

    def collect(self) -> Iterable[Metric]:
        for name, value in self._figures.items():
            info = self._described[name]
            family = (CounterMetricFamily if info.kind == "counter" else GaugeMetricFamily)(
                f"cobblestone_{name}", info.text, labels=[info.label] if info.label else None
            )
            for label, number in value.items() if isinstance(value, Mapping) else (("", value),):
                family.add_metric([label] if info.label else [], number)
            yield family
