"""Metrics of a server in the format of Prometheus, summed over all its processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from weft.version import __version__

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder that the processes of a server share; it must be set before prometheus_client is imported."""

SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
UNKNOWN_ROUTE: Final = "other"

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time of the first request of each label has no use


class Metrics:
    """The counters of one process. With several processes each writes to the shared folder, and any of them answers
    for all."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter(
            "weft_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "weft_request_seconds", "Seconds from request to response.", ["route"], buckets=SECONDS, registry=registry
        )
        self.queue = _gauge("weft_queue_length", "Inputs that wait.", registry)
        self.running = _gauge("weft_running_inputs", "Inputs that are computed now.", registry)
        about = "Inputs computed together, for each batch, or each few steps of a search."
        self.batch = Histogram("weft_batch_size", about, buckets=SIZES, registry=registry)
        self.tokens = Counter("weft_tokens", "Tokens read and written.", ["model", "direction"], registry=registry)
        about = "Requests refused or given up, by reason."
        self.rejected = Counter("weft_rejected", about, ["reason"], registry=registry)
        self.reloads = Counter("weft_reloads", "Runs loaded again.", ["model", "result"], registry=registry)
        registry.register(Memory())
        about = "Always 1; the version is a label."
        version = Gauge("weft_info", about, ["version"], registry=registry, multiprocess_mode="livemax")
        version.labels(__version__).set(1)
        for reason in ("queue", "deadline", "disconnect"):
            self.rejected.labels(reason)

    def show(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        every.register(Memory())
        return generate_latest(every)


def _gauge(name: str, about: str, registry: CollectorRegistry) -> Gauge:
    """A gauge that is the sum of those of all processes."""
    return Gauge(name, about, registry=registry, multiprocess_mode="livesum")


class Memory(Collector):
    """The memory of all processes of the server, read when it is asked for: a gauge that each process sets for itself
    would leave out those that have answered no /metrics yet."""

    def collect(self) -> Iterator[Metric]:
        about = "Memory of the server's processes."
        yield GaugeMetricFamily("weft_resident_bytes", about, value=sum(map(resident_bytes, processes())))


def processes() -> list[int]:
    """Return the process ids of the server: with several, of those that have gauges."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return [os.getpid()]
    return [int(path.stem.rpartition("_")[2]) for path in Path(folder).glob("gauge_livesum_*.db")]


def resident_bytes(process: int) -> int:
    """Return the memory of a process; 0 where it has ended, or the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def forget_process(pid: int) -> None:
    """Leave out the gauges of a process that has ended."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]
