"""The machine that figures come from: its device, load and versions; and an empty kernel cache for first calls."""

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

from weft.errors import ConfigError, did_you_mean
from weft.training import choose_device

DEVICES: Final = ("cpu", "cuda")
"""The types of device that have benchmark sizes of their own."""

BUSY_LOAD: Final = 0.5
"""The load average above which another process is likely to slow down the figures."""

CACHES: Final = ("WEFT_CACHE", "TRITON_CACHE_DIR")


def choose_place(name: str) -> torch.device:
    """Return the device of that name; `auto` is CUDA if there is one."""
    kinds = ("auto", *DEVICES)
    if name not in kinds:
        raise ConfigError(f'"{name}" is not a device to measure on', where="--device", cure=did_you_mean(name, kinds))
    try:
        return choose_device(name)
    except ConfigError as error:
        raise ConfigError(error.what, where="--device", cure="use cpu") from None


def describe(device: torch.device) -> dict[str, Any]:
    """The facts about the machine that are printed with a table of figures."""
    facts: dict[str, Any] = {"date": date.today().isoformat(), "torch": torch.__version__}
    if device.type == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        return {"device": torch.cuda.get_device_name(device), **facts, "cudnn": cudnn}
    return {"device": _processor(), "threads": torch.get_num_threads(), **facts, "load": load()}


def load() -> float | None:
    """The load average of the last minute, or None where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def load_warning(device: torch.device) -> str | None:
    """A line for the user if other processes seem to be running: every thread then waits for the slowest."""
    now = load()
    if device.type != "cpu" or now is None or now <= BUSY_LOAD:
        return None
    return f"the machine is busy (load average {now:.2f}): figures are noise unless it was this command a moment ago"


@contextmanager
def cold_cache(*, wanted: bool = True) -> Iterator[None]:
    """Point the kernel caches to an empty folder, so that a first call compiles its kernels."""
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
