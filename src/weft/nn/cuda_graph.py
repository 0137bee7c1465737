"""CUDA graphs: how something is recorded, and what recordings of a network, kept for later, have to know: whether its
tensors still lie where they lay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Given = TypeVar("Given")

_held: WeakKeyDictionary[nn.Module, tuple[Mapping[str, Tensor | None], ...]] = WeakKeyDictionary()


def record(act: Callable[[], Given], *, pool: Any = None, before: int = 1) -> tuple[torch.cuda.CUDAGraph, Given]:
    """The graph of an act, and what it gave. It runs some times before, beside everything else: a recording must not be
    the first use of its kernels."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(before):
            act()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        given = act()
    return graph, given


def addresses(network: nn.Module) -> int:
    """A number that changes when a parameter or a buffer moves. This is asked before every replay, so where modules
    keep theirs is looked up once."""
    held = _held.get(network)
    if held is None:
        # Not the modules: who is kept with the network must not keep it.
        every: list[Mapping[str, Tensor | None]] = []
        for part in network.modules():
            every += [part._parameters, part._buffers]
        held = _held[network] = tuple(tensors for tensors in every if tensors)
    return hash(tuple([tensor.data_ptr() for tensors in held for tensor in tensors.values() if tensor is not None]))
