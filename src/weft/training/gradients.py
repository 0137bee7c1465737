"""Loss and gradients of a batch: computed operation by operation, or replayed from a CUDA graph of its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

from weft.models import forcing_graph
from weft.nn import Packing
from weft.nn.cuda_graph import GraphCache, generator_kept
from weft.tasks import Batch

MAX_CACHED_GRAPHS: Final = 12
"""Shapes whose graphs are kept. Each graph has gradients of its own, as large as the model."""

Compute = Callable[[Batch, Tensor | float], Tensor]
"""(batch on the device, factor) -> factor times the batch's summed loss; leaves the gradients in the model."""


class Gradients(Protocol):
    """Adds the gradients of a batch to those of a model and returns the loss; the batch may be in host memory.

    The factor turns the sum of its losses into a mean, or into its share of the mean over several batches. If the call
    raises, the gradients of the model are unchanged.
    """

    def __call__(self, batch: Batch, factor: float) -> Tensor: ...

    def release(self) -> None:
        """Free the memory that is kept on the device between calls."""


class Computed:
    """Computes operation by operation."""

    def __init__(self, compute: Compute, parameters: list[nn.Parameter], device: torch.device) -> None:
        self.compute, self.parameters, self.device = compute, parameters, device

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        # A backward pass on a GPU has a thread of its own; to wake it and be woken may take longer than a small model.
        one_thread = torch.autograd.set_multithreading_enabled(self.device.type != "cuda")
        with one_thread, added(self.parameters, [parameter.grad for parameter in self.parameters]):
            return self.compute(batch.to(self.device), factor)

    def release(self) -> None:
        """Free the recorded steps of scheduled sampling, of all models."""
        forcing_graph.release()


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    mean: Tensor
    gradients: list[Tensor | None]


class Captured:
    """Replays a CUDA graph, captured at the first batch of each shape; the host launches nothing else.

    All tensors of a graph have fixed addresses. Batch and factor are copied there before each replay; the gradients are
    read from there afterwards, and added to those of earlier batches outside the graph.
    """

    def __init__(self, compute: Compute, parameters: list[nn.Parameter], device: torch.device) -> None:
        self.compute, self.parameters, self.device = compute, parameters, device
        self.factor = torch.zeros((), device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.graphs: GraphCache[_Graph] = GraphCache(MAX_CACHED_GRAPHS)

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        # Cloned, because they may be at the addresses that this replay writes to.
        before = [None if parameter.grad is None else parameter.grad.clone() for parameter in self.parameters]
        with added(self.parameters, before):
            graph = self._graph(batch)
            for fixed, tensor in zip(tensors_of(graph.batch), tensors_of(batch), strict=True):
                fixed.copy_(tensor, non_blocking=True)
            self.factor.fill_(factor)
            graph.graph.replay()
            for parameter, gradient in zip(self.parameters, graph.gradients, strict=True):
                parameter.grad = gradient
        return graph.mean.clone()  # the next replay overwrites it

    def release(self) -> None:
        self.graphs.clear()
        # The pool of a failed capture cannot be used again.
        self.pool = torch.cuda.graph_pool_handle()

    def _graph(self, batch: Batch) -> _Graph:
        """Return the graph of the batch's shape; captures it if there is none."""
        shape = shape_of(batch)
        graph = self.graphs.get(shape)
        if graph is None:
            self.graphs.make_space()
            try:
                graph = self._capture(batch.to(self.device))
            except RuntimeError as error:
                # Ending a broken capture raises an error of its own, which hides the one that broke it.
                if isinstance(error.__context__, torch.OutOfMemoryError):
                    raise error.__context__ from None
                raise
            self.graphs.put(shape, graph)
        return graph

    def _capture(self, batch: Batch) -> _Graph:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(2):  # kernels are compiled and libraries loaded before the capture
                self._clear()
                self.compute(batch, self.factor)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self._clear()
        graph = torch.cuda.CUDAGraph()
        # thread_local, because another thread prepares batches and may allocate pinned memory meanwhile. The current
        # stream is set once more because a capture that fails to end does not restore it.
        with (
            torch.cuda.stream(torch.cuda.current_stream(self.device)),
            generator_kept(self.device),
            torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"),
        ):
            mean = self.compute(batch, self.factor)
        return _Graph(graph, batch, mean, [parameter.grad for parameter in self.parameters])

    def _clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


@contextmanager
def added(parameters: list[nn.Parameter], earlier: list[Tensor | None]) -> Iterator[None]:
    """Add the gradients that the block computes to the earlier ones; if it raises, restore the earlier ones.

    The block starts without gradients, since a backward pass that fails has already added some of its own.
    """
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    except BaseException:
        for parameter, gradient in zip(parameters, earlier, strict=True):
            parameter.grad = gradient
        raise
    for parameter, gradient in zip(parameters, earlier, strict=True):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)


def shape_of(batch: Batch) -> tuple[Any, ...]:
    """A key for the shapes of a batch: batches with the same key can use the same graph."""
    parts: list[Any] = [type(batch)]
    for item in fields(batch):
        part = getattr(batch, item.name)
        if isinstance(part, Packing):
            parts += [part.longest, part.count]
        elif part is None:
            parts.append(item.name)
    return (*parts, *((tuple(tensor.shape), tensor.dtype) for tensor in tensors_of(batch)))


def size_of(batch: Batch) -> int:
    """The positions of a batch, padding included; of its larger side if it has two."""
    return max((tensor.numel() for tensor in tensors_of(batch)), default=0)


def tensors_of(batch: Batch) -> list[Tensor]:
    """The tensors of a batch, in the order of its fields."""
    found: list[Tensor] = []
    for item in fields(batch):
        part = getattr(batch, item.name)
        if isinstance(part, Packing):
            found += part.tensors
        elif isinstance(part, Tensor):
            found.append(part)
    return found
