"""Batches that do not fit into the memory of a device are computed in parts; the largest one is tried first.

The loss of a batch is a sum, so the gradients of its parts, computed one after the other, add up to its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weft.errors import Fault, counted
from weft.tasks import Batch
from weft.training.gradients import Gradients, size_of


class Fitting:
    """Computes the gradients of a batch in the first of several ways that fits; else its halves in the last way.

    A way that failed with a batch is not tried again with one at least as large. With `splits` false, a batch that does
    not fit raises a Fault.
    """

    def __init__(self, ways: Sequence[Gradients], device: torch.device, *, splits: bool = True) -> None:
        self.ways, self.device, self.splits = ways, device, splits
        self.limits: list[float] = [math.inf] * len(ways)
        self.notes: list[str] = []

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        before = list(self.limits)
        means = self._compute(batch, factor, first=0)
        if self.limits != before:
            self._note(batch, len(means))
        return means[0] if len(means) == 1 else torch.stack(means).sum()

    def take_notes(self) -> list[str]:
        """Return the notes for the user since the last call."""
        notes, self.notes = self.notes, []
        return notes

    def release(self) -> None:
        """Free the memory that the ways keep, for the next attempt."""
        for way in self.ways:
            way.release()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _compute(self, batch: Batch, factor: float, *, first: int) -> list[Tensor]:
        """Return the loss of each part; ways before number `first` are not tried."""
        size = size_of(batch)
        for number in range(first, len(self.ways)):
            if size < self.limits[number]:
                mean = _attempt(self.ways[number], batch, factor)
                if mean is not None:
                    return [mean]
                self.limits[number] = size
                self.release()
        if batch.origin is None or len(batch.origin.rows) < 2 or not self.splits:
            raise self._too_large(batch)
        # Parts have shapes of their own, for which a graph does not pay.
        last = len(self.ways) - 1
        return [mean for half in batch.origin.halves() for mean in self._compute(half, factor, first=last)]

    def _note(self, batch: Batch, parts: int) -> None:
        what = f"{describe(batch)} did not fit into the memory of {self.device}"
        if parts == 1:
            note = f"{what} as a CUDA graph: batches of {size_of(batch):,} tokens or more run without one, more slowly"
        else:
            note = (
                f"{what}: it was computed in {parts} parts, as later ones of {self.limits[-1]:,} tokens or more will "
                "be; the updates are the same, but slower (lower train.batch_tokens, and raise train.accumulate by the "
                "same factor)"
            )
        self.notes.append(note)

    def _too_large(self, batch: Batch) -> Fault:
        single = batch.origin is not None and len(batch.origin.rows) == 1
        cure = "lower train.batch_tokens, and raise train.accumulate by the same factor"
        if single:
            cure = "lower data.max_length, or make the model smaller"
        return Fault(f"{describe(batch)} does not fit into the memory of {self.device}", cure=cure)


def _attempt(way: Gradients, batch: Batch, factor: float) -> Tensor | None:
    """Return None if it does not fit. Memory of the failed pass is freed with its exception, when this returns."""
    try:
        return way(batch, factor)
    except torch.OutOfMemoryError:
        return None


def describe(batch: Batch) -> str:
    """The size of a batch in words, and its examples if they are known."""
    size = counted(size_of(batch), "token")
    if batch.origin is None:
        return f"a batch of {size}"
    rows = len(batch.origin.rows)
    return f"a batch of {counted(rows, 'example')} and {size} ({batch.origin})"


def try_largest(gradients: Fitting, batch: Batch, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Compute the largest batch of a training once and drop its gradients, so that a lack of memory shows at once.

    It changes nothing that is learned later: random numbers and buffers are restored. A note reports it.
    """
    device = gradients.device
    buffers = [buffer.clone() for buffer in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        moments = _memory_for_moments(optimizer)
        gradients(batch, 1 / max(1, batch.count))
        del moments
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for buffer, before in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(before)
    peak = f"; {torch.cuda.max_memory_reserved(device) / 2**30:.2f} GiB at the peak" if device.type == "cuda" else ""
    rows = f"{counted(len(batch.origin.rows), 'example')}, " if batch.origin else ""
    gradients.notes.append(f"tried the largest batch first: {rows}{counted(size_of(batch), 'token')}{peak}")


def _memory_for_moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Allocate as much memory as the optimizer will with its first update; nothing if it has made one."""
    if optimizer.state:
        return []
    each = 1 if isinstance(optimizer, torch.optim.SGD) else 2
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [torch.empty_like(parameter) for parameter in parameters for _ in range(each)]
