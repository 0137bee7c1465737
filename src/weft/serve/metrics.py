"""Metrics of a server in the format of Prometheus, summed over all its processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead  # type: ignore[attr-defined]

from weft.version import __version__

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder that the processes of a server share; it must be set before prometheus_client is imported."""

SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
UNKNOWN_ROUTE: Final = "other"

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

disable_created_metrics()  # type: ignore[no-untyped-call]  # the moment of the first request of each label: nobody reads it


class Metrics:
    """The counters of one process. With several processes each writes to the shared folder, and any of them answers
    for all."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = {"registry": self.registry, "namespace": "weft"}
        live = own | {"multiprocess_mode": "livesum"}
        self.requests = Counter("requests", "Requests by route and status.", ["route", "status"], **own)
        self.seconds = Histogram(
            "request_seconds", "Seconds from request to response.", ["route"], buckets=SECONDS, **own
        )
        self.queue = Gauge("queue_length", "Inputs that wait.", **live)
        self.running = Gauge("running_inputs", "Inputs that are computed now.", **live)
        self.batch = Histogram(
            "batch_size", "Inputs computed together, for each batch or step of a search.", buckets=SIZES, **own
        )
        self.tokens = Counter("tokens", "Tokens read and written.", ["model", "direction"], **own)
        self.rejected = Counter("rejected", "Requests refused or given up, by reason.", ["reason"], **own)
        self.reloads = Counter("reloads", "Runs loaded again.", ["model", "result"], **own)
        self.memory = Gauge("resident_bytes", "Memory of the server's processes.", **live)
        version = Gauge(
            "info",
            "Always 1; the version is a label.",
            ["version"],
            registry=self.registry,
            namespace="weft",
            multiprocess_mode="livemax",
        )
        version.labels(__version__).set(1)
        for reason in ("queue", "deadline", "disconnect", "draining"):
            self.rejected.labels(reason)

    def show(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        self.memory.set(resident_bytes())
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


def resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def forget_process(pid: int) -> None:
    """Leave out the gauges of a process that has ended."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]
