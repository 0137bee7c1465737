"""Where figures come from: the device, its load, the versions; and an empty cache for those who want the first call."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

import torch

BUSY: Final = 0.5
"""The load average above which two threads are likely to wait for a third."""

CACHES: Final = ("WEFT_CACHE", "TRITON_CACHE_DIR")


def describe(device: torch.device) -> dict[str, Any]:
    """What a table of figures must say about the machine that made it."""
    facts: dict[str, Any] = {"date": date.today().isoformat(), "torch": torch.__version__}
    if device.type == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        return {"device": torch.cuda.get_device_name(device), **facts, "cudnn": cudnn}
    return {"device": _processor(), "threads": torch.get_num_threads(), **facts, "load": load()}


def load() -> float | None:
    """How many processes wanted to run, on average over the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def load_warning(device: torch.device) -> str | None:
    """One line where something else seems to be running, since every thread then waits for the slowest."""
    now = load()
    if device.type != "cpu" or now is None or now <= BUSY:
        return None
    return f"the machine is busy (load average {now:.2f}): figures are noise unless it was this command a moment ago"


@contextmanager
def cold_cache(*, wanted: bool = True) -> Iterator[None]:
    """Compiled kernels go to an empty folder, so that a first call compiles them."""
    if not wanted:
        yield
        return
    before = {name: os.environ.get(name) for name in CACHES}
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        os.environ.update({name: str(Path(folder, name.lower())) for name in CACHES})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                os.environ.update({name: value} if value is not None else {})


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
