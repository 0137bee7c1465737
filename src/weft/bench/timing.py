"""Times several contenders in turn, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

SAMPLE_SECONDS: Final = 0.02
"""The length of a sample on a GPU unless its calls are given: long enough for the host to queue work ahead."""


@dataclass(frozen=True)
class Contender:
    """A function to time; it takes part in every `every`-th round."""

    run: Callable[[], object]
    every: int = 1


def time_in_turn(
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    device: torch.device,
    rest: float = 0.0,
    calls: int | None = None,
) -> dict[str, float]:
    """Return the median seconds of a call of each contender, after one call of each that does not count.

    A sample is `calls` calls in a row, on a GPU without synchronising between them. Each sample begins after a pause of
    `rest` seconds.
    """
    on_gpu = device.type == "cuda"
    clock = _gpu_seconds if on_gpu else _seconds
    each: dict[str, int] = {}
    for name, contender in contenders.items():
        first = clock(contender.run, 1)
        lasting = max(1, min(10, math.ceil(SAMPLE_SECONDS / first))) if on_gpu else 1
        each[name] = calls or lasting
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_collection():
        for number in range(rounds):
            # Every second round runs backwards, so that no contender always follows the same other one.
            order = list(contenders.items())[:: 1 if number % 2 == 0 else -1]
            for name, contender in order:
                if number % contender.every == 0:
                    time.sleep(rest)
                    samples[name].append(clock(contender.run, each[name]))
    return {name: statistics.median(values) for name, values in samples.items()}


def _seconds(run: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - began) / calls


def _gpu_seconds(run: Callable[[], object], calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000 / calls


@contextmanager
def _no_collection() -> Iterator[None]:
    """Turn off garbage collection: it would run during one contender for the garbage of another."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
