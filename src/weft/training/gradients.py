"""Loss and gradients of a batch: computed call by call, or replayed from a CUDA graph of the batch's shape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

from weft.nn import Packing
from weft.tasks import Batch

GRAPHS: Final = 12
"""Shapes that are kept captured. Each holds gradients of its own, as large as the model."""

Compute = Callable[[Batch, Tensor | float], Tensor]
"""(batch on the device, factor) -> factor times the sum of the batch's losses; its gradients are left in the model."""


class Gradients(Protocol):
    """Adds to the gradients of a model those of a batch, which may still lie in host memory.

    The factor makes a mean of the sum of its losses, or its share of the mean where several batches make one update.
    Where it fails, the gradients are as they were.
    """

    def __call__(self, batch: Batch, factor: float) -> Tensor: ...

    def release(self) -> None:
        """Give back what is kept on the device to be used again."""


class Computed:
    """Operation by operation."""

    def __init__(self, compute: Compute, parameters: list[nn.Parameter], device: torch.device) -> None:
        self.compute, self.parameters, self.device = compute, parameters, device

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        with added(self.parameters, [parameter.grad for parameter in self.parameters]):
            return self.compute(batch.to(self.device), factor)

    def release(self) -> None:
        """Nothing is kept."""


@dataclass
class _Graph:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    mean: Tensor
    gradients: list[Tensor | None]


class Captured:
    """From a graph, captured when a shape of batch is first seen: the processor launches nothing but that.

    Everything in it has a fixed place. The batch is copied there before each replay, with the factor that makes a mean
    of the sum; the gradients are found there afterwards, and added to those of earlier batches outside the graph.
    """

    def __init__(self, compute: Compute, parameters: list[nn.Parameter], device: torch.device) -> None:
        self.compute, self.parameters, self.device = compute, parameters, device
        self.factor = torch.zeros((), device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.graphs: OrderedDict[object, _Graph] = OrderedDict()

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        # They may lie in the very place that this replay writes to.
        before = [None if parameter.grad is None else parameter.grad.clone() for parameter in self.parameters]
        with added(self.parameters, before):
            graph = self._graph(batch)
            for place, tensor in zip(tensors_of(graph.batch), tensors_of(batch), strict=True):
                place.copy_(tensor, non_blocking=True)
            self.factor.fill_(factor)
            graph.graph.replay()
            for parameter, gradient in zip(self.parameters, graph.gradients, strict=True):
                parameter.grad = gradient
        return graph.mean.clone()  # the place is written again by the next replay

    def release(self) -> None:
        self.graphs.clear()
        # A pool that a failed capture has left behind is not taken up again.
        self.pool = torch.cuda.graph_pool_handle()

    def _graph(self, batch: Batch) -> _Graph:
        """That of the batch's shape."""
        shape = shape_of(batch)
        if shape not in self.graphs:
            if len(self.graphs) == GRAPHS:
                self.graphs.popitem(last=False)
            try:
                self.graphs[shape] = self._capture(batch.to(self.device))
            except RuntimeError as error:
                # To end a capture that was broken off fails in its own words, over those of what broke it off.
                if isinstance(error.__context__, torch.OutOfMemoryError):
                    raise error.__context__ from None
                raise
        self.graphs.move_to_end(shape)
        return self.graphs[shape]

    def _capture(self, batch: Batch) -> _Graph:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(2):  # kernels are built and libraries woken before anything is captured
                self._clear()
                self.compute(batch, self.factor)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self._clear()
        graph = torch.cuda.CUDAGraph()
        # Meanwhile another thread makes batches, and may take pinned memory for them. The stream is named once more
        # because a capture that cannot be ended does not go back to it.
        with (
            torch.cuda.stream(torch.cuda.current_stream(self.device)),
            torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"),
        ):
            mean = self.compute(batch, self.factor)
        return _Graph(graph, batch, mean, [parameter.grad for parameter in self.parameters])

    def _clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


@contextmanager
def added(parameters: list[nn.Parameter], earlier: list[Tensor | None]) -> Iterator[None]:
    """Add the gradients that are made inside to earlier ones, or restore these where that fails.

    A backward pass that breaks off has added some of its own already; so it starts from none.
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


def shape_of(batch: Batch) -> object:
    """Batches of the same shape can be computed by the same graph."""
    parts: list[Any] = [type(batch)]
    for item in fields(batch):
        part = getattr(batch, item.name)
        if isinstance(part, Packing):
            parts += [part.longest, part.count]
        elif part is None:
            parts.append(item.name)
    return (*parts, *((tuple(tensor.shape), tensor.dtype) for tensor in tensors_of(batch)))


def size_of(batch: Batch) -> int:
    """The positions of a batch, padding counted: those of the larger side where it has two."""
    return max((tensor.numel() for tensor in tensors_of(batch)), default=0)


def tensors_of(batch: Batch) -> list[Tensor]:
    """In the order of the fields."""
    found: list[Tensor] = []
    for item in fields(batch):
        part = getattr(batch, item.name)
        if isinstance(part, Packing):
            found += part.tensors
        elif isinstance(part, Tensor):
            found.append(part)
    return found
