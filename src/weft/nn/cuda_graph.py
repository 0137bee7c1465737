"""CUDA graphs: recording a function, keeping the recordings that were used last, and noticing when tensors move."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Result = TypeVar("Result")
Graph = TypeVar("Graph")

_tensors: WeakKeyDictionary[nn.Module, tuple[Mapping[str, Tensor | None], ...]] = WeakKeyDictionary()


class GraphCache(Generic[Graph]):
    """Recordings by key, at most `size` of them: the least recently used one that is not busy is evicted first."""

    def __init__(self, size: int, *, busy: Callable[[Graph], bool] = lambda _: False) -> None:
        self.size, self._busy = size, busy
        self._graphs: OrderedDict[Hashable, Graph] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def __len__(self) -> int:
        return len(self._graphs)

    def get(self, key: Hashable) -> Graph | None:
        """The recording of a key, which is now the most recently used one; None where there is none."""
        if key not in self._graphs:
            return None
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def make_space(self) -> None:
        """Evict until one more fits or all that remain are busy: the memory is free before the next recording."""
        idle = [key for key, graph in self._graphs.items() if not self._busy(graph)]
        for key in idle[: max(0, len(self._graphs) - self.size + 1)]:
            del self._graphs[key]

    def put(self, key: Hashable, graph: Graph) -> None:
        """Store a recording as the most recently used one."""
        if key not in self._graphs:
            self.make_space()
        self._graphs[key] = graph
        self._graphs.move_to_end(key)

    def clear(self) -> None:
        self._graphs.clear()


@contextmanager
def generator_kept(device: torch.device) -> Iterator[None]:
    """A scope for a recording, after whose failure numbers can be drawn as before.

    torch leaves the generator of the device as if the recording still went on, and whatever draws from it later fails.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    before = generator.get_state()
    try:
        yield
    except BaseException:
        fresh = torch.Generator(generator.device)
        fresh.set_state(before)
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
        raise


def record(function: Callable[[], Result], *, pool: Any = None, before: int = 1) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Record a function -> its graph, and what it returned.

    It runs `before` times on a stream of its own first: kernels must not be compiled or loaded while recording.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(before):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with (
        generator_kept(torch.device("cuda")),
        torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"),
    ):
        result = function()
    return graph, result


def addresses(network: nn.Module) -> int:
    """A number that changes when a parameter or a buffer moves: a recording reads where tensors lay when it was made.

    It is computed before every replay, so the tables that hold a module's tensors are collected once.
    """
    tables = _tensors.get(network)
    if tables is None:
        # Tables and not modules: a value of this dictionary must not keep its key alive.
        every: list[Mapping[str, Tensor | None]] = []
        for part in network.modules():
            every += [part._parameters, part._buffers]
        tables = _tensors[network] = tuple(tensors for tensors in every if tensors)
    return hash(tuple([tensor.data_ptr() for tensors in tables for tensor in tensors.values() if tensor is not None]))
