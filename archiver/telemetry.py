"""Metrics and logging of the product itself. No captured log content ever goes through here.

Metric names follow kube-state-metrics: prefix ``ray_archiver_``, base units, few label values.
"""

import logging
import sys
from typing import Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LAG_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)
_MARGIN_BUCKETS = (-60, -10, -5, -1, 0, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 300)


class Metrics:
    """The counters and gauges of one process, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._define_capture(self.registry)
        self._define_watches(self.registry)
        self._define_states(self.registry)

    def _define_capture(self, registry: CollectorRegistry) -> None:
        self.capture_lag_seconds = Histogram(
            "ray_archiver_capture_lag_seconds",
            "From the last container's end to the manifest",
            registry=registry,
            buckets=_LAG_BUCKETS,
        )
        self.capture_margin_seconds = Histogram(
            "ray_archiver_capture_margin_seconds",
            "From safe to deleted; negative: deleted first",
            registry=registry,
            buckets=_MARGIN_BUCKETS,
        )
        self.attempts_total = Counter(
            "ray_archiver_attempts_total", "Attempts archived", ["ended_as", "completeness"], registry=registry
        )
        self.not_stored_total = Counter(
            "ray_archiver_runs_not_stored_total", "Artifacts lost or incomplete", ["reason"], registry=registry
        )
        self.log_bytes_total = Counter("ray_archiver_log_bytes_total", "Bytes of logs", ["stage"], registry=registry)
        self.redactions_total = Counter("ray_archiver_redactions_total", "Secrets masked", ["rule"], registry=registry)

    def _define_watches(self, registry: CollectorRegistry) -> None:
        self.watch_events_total = Counter(
            "ray_archiver_watch_events_total", "Changes seen", ["kind"], registry=registry
        )
        self.watch_reconnects_total = Counter(
            "ray_archiver_watch_reconnects_total", "Watches opened again", ["kind", "reason"], registry=registry
        )
        self.watch_last_event_timestamp_seconds = Gauge(
            "ray_archiver_watch_last_event_timestamp_seconds",
            "When a watch last showed life",
            ["kind"],
            registry=registry,
        )

    def _define_states(self, registry: CollectorRegistry) -> None:
        self.spool_bytes = Gauge("ray_archiver_spool_bytes", "Bytes waiting on the spool", registry=registry)
        self.spool_oldest_seconds = Gauge(
            "ray_archiver_spool_oldest_seconds", "Age of the oldest waiting piece", registry=registry
        )
        self.open_attempts = Gauge("ray_archiver_open_attempts", "Attempts being captured", registry=registry)
        self.open_streams = Gauge("ray_archiver_open_streams", "Logs being followed", registry=registry)
        self.finalizers_held = Gauge(
            "ray_archiver_finalizers_held", "RayClusters held from deletion", registry=registry
        )
        self.hold_seconds = Histogram(
            "ray_archiver_finalizer_hold_seconds", "How long a RayCluster was held", registry=registry
        )
        self.index_pending = Gauge("ray_archiver_index_pending", "Manifests not in the index yet", registry=registry)
        self.errors_total = Counter(
            "ray_archiver_errors_total", "Steps that failed and are tried again", ["step"], registry=registry
        )
        self.leading = Gauge("ray_archiver_leading", "1 while this replica leads", registry=registry)

    def render(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self.registry)


def configure_logging(level: str, form: Literal["auto", "text", "json"]) -> None:
    """structlog over stdlib on standard error; ``auto`` means text on a terminal and JSON elsewhere."""
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        # never the variables of a frame, which other formatters print: they hold log text and tokens
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if as_text
        else structlog.processors.JSONRenderer()
    )
    if not as_text:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # their own lines at info are one a request
    for noisy in ("botocore", "aiobotocore", "urllib3", "uvicorn.access", "alembic.runtime.migration"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
