"""Peak memory of a forward and backward pass, above the weights and the input.

A GPU's allocator counts. On a CPU nobody does, so a pass runs in a process of its own and the growth of that process
is taken: what the system gave it, pages and all.
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

from weft.bench.case import Case
from weft.bench.contenders import Pass, Workload
from weft.bench.process import ask
from weft.nn import CellClass
from weft.training.device import synchronize

GIVE_BACK: Final = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Has glibc give freed memory back at once: kept, it would be used again and not seen as growth."""


class FirstCall(NamedTuple):
    """Seconds of the first call, and on a GPU the bytes at the peak."""

    seconds: float
    peak: int | None


def first_call(run: Callable[[], object], device: torch.device) -> FirstCall:
    """Call it for the first time, and once more: what the first call keeps for later belongs to its memory."""
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
    """Bytes by which a fresh process grows; `imports` are the files of cells that are not weft's own."""
    found: int = ask(peak, case, imports=imports, environment=GIVE_BACK, who=who)
    return found


def peak(case: Case, cells: Mapping[str, CellClass], who: str) -> int:
    """Bytes by which this process grows, which has done nothing else yet."""
    # Libraries are loaded and kernels compiled on a few steps, which leave nothing behind that a long pass could reuse.
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
    """From here on the peak is counted anew; elsewhere than on Linux it is that of the whole process."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """The most bytes this process has held."""
    import resource

    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    # On Linux this would be no less than the parent held when it started us.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
