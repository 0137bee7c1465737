"""Work on a GPU in a thread and on a stream of its own, for CUDA graphs to be captured from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def run_apart(device: torch.device, work: Callable[[], None]) -> None:
    """Do it on a stream and in a thread for that alone.

    The libraries take a workspace for each thread and each stream that calls them, and keep it: a call and its
    backward pass come from two threads. What runs on one stream can share a workspace; what runs on two cannot.
    """
    current = torch.cuda.current_stream(device)
    stream = _capture_stream(device, current.cuda_stream)

    def run() -> None:
        with torch.no_grad(), torch.cuda.stream(stream):
            work()

    stream.wait_stream(current)
    _capture_thread().submit(run).result()
    current.wait_stream(stream)


@cache
def _capture_stream(device: torch.device, current: int) -> torch.cuda.Stream:
    """One for all captures that are run on the stream `current`."""
    del current
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def _capture_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="weft-capture")
