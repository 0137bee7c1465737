"""Several contenders timed in turn, so that whatever else the machine does falls on all of them alike."""

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

SAMPLE: Final = 0.02
"""Seconds that a sample on a GPU should last where its calls are not given, so that the processor can run ahead."""


@dataclass(frozen=True)
class Contender:
    """Something to call; it takes part in every so many rounds."""

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
    """The median seconds of a call of each, after one call of each that does not count; `rest` seconds before each.

    A sample is so many `calls`, one after the other; on a GPU nobody waits for it between them.
    """
    on_gpu = device.type == "cuda"
    clock = _gpu_seconds if on_gpu else _seconds
    each: dict[str, int] = {}
    for name, contender in contenders.items():
        first = clock(contender.run, 1)
        lasting = max(1, min(10, math.ceil(SAMPLE / first))) if on_gpu else 1
        each[name] = calls or lasting
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_collection():
        for number in range(rounds):
            # Back and forth, so that nobody always finds the caches as the same other one left them.
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
    """Python's collector would stop one contender for what another left behind."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
