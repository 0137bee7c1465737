"""Peak memory of a forward and backward pass, above the weights and the input.

On a GPU torch's allocator counts it. On a CPU nothing does, so a pass runs in a process of its own, and the growth of
that process's resident memory is taken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import torch

from weft.bench.recurrence.case import Case
from weft.bench.recurrence.contenders import Pass, Workload
from weft.bench.recurrence.process import ask
from weft.nn import CellClass
from weft.training.device import synchronize

RELEASE_AT_ONCE: Final = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Makes glibc return freed memory to the system at once: memory that it keeps and reuses does not show as growth."""


class FirstCall(NamedTuple):
    """Seconds of the first call, and on a GPU the bytes at the peak."""

    seconds: float
    peak: int | None


def first_call(run: Callable[[], object], device: torch.device) -> FirstCall:
    """Time the first call. On a GPU call again for the peak: memory that the first call keeps belongs to it."""
    on_gpu = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    run()
    synchronize(device)
    seconds = time.perf_counter() - began
    if not on_gpu:
        return FirstCall(seconds, None)
    run()
    synchronize(device)
    return FirstCall(seconds, torch.cuda.max_memory_allocated(device) - before)


def peak_in_process(case: Case, who: str, *, imports: Sequence[str] = ()) -> int:
    """Return the bytes by which a fresh process grows; `imports` are the files of cells that are not weft's own."""
    found: int = ask(peak, case, imports=imports, environment=RELEASE_AT_ONCE, who=who)
    return found


def peak(case: Case, cells: Mapping[str, CellClass], who: str) -> int:
    """Return the bytes by which this process grows; it must have computed nothing before."""
    # Two time steps load libraries and compile kernels, and leave too little memory behind for the long pass to reuse.
    _contender(replace(case, size=case.size._replace(time=2)), who, cells)()
    run = _contender(case, who, cells)
    _reset_peak()
    before = _peak()
    run()
    return _peak() - before


def _contender(case: Case, who: str, cells: Mapping[str, CellClass]) -> Pass:
    work = Workload(case, cells)
    return work.weft() if who == "weft" else work.torch()


def _reset_peak() -> None:
    """Reset the peak on Linux; on other systems it stays that of the whole process."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """The peak resident memory of this process in bytes."""
    import resource

    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    # On Linux this is at least what the parent held when it started this process, hence /proc first.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
