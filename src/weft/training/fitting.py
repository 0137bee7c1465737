"""Batches that do not fit into the memory of a device: found before training begins, and computed in parts.

The losses of a batch are a sum, so the gradients of its parts, computed one after the other, add up to its own.
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
    """Tries each of several ways to compute a batch, and then its halves by the last way.

    A batch at least as large as one that a way has failed with is not tried with it again. With `splits` false, one
    that does not fit ends the training.
    """

    def __init__(self, ways: Sequence[Gradients], device: torch.device, *, splits: bool = True) -> None:
        self.ways, self.device, self.splits = ways, device, splits
        self.limits: list[float] = [math.inf] * len(ways)
        self.notes: list[str] = []

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        before = list(self.limits)
        means = self._compute(batch, factor, first=0)
        if self.limits != before:
            self._tell(batch, len(means))
        return means[0] if len(means) == 1 else torch.stack(means).sum()

    def take_notes(self) -> list[str]:
        """What is to be told, once."""
        notes, self.notes = self.notes, []
        return notes

    def release(self) -> None:
        """Free what the ways keep, so that there is room for the next attempt."""
        for way in self.ways:
            way.release()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _compute(self, batch: Batch, factor: float, *, first: int) -> list[Tensor]:
        """The loss of each part; ways before the first are left out."""
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
        # Parts have shapes of their own, which are not worth a graph.
        last = len(self.ways) - 1
        return [mean for half in batch.origin.halves() for mean in self._compute(half, factor, first=last)]

    def _tell(self, batch: Batch, parts: int) -> None:
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
    """None if it does not fit. What the failed pass held is free only once its exception is gone: after this call."""
    try:
        return way(batch, factor)
    except torch.OutOfMemoryError:
        return None


def describe(batch: Batch) -> str:
    """How large a batch is, and what it is made of where that is known."""
    size = counted(size_of(batch), "token")
    if batch.origin is None:
        return f"a batch of {size}"
    rows = len(batch.origin.rows)
    return f"a batch of {counted(rows, 'example')} and {size} ({batch.origin})"


def try_largest(gradients: Fitting, batch: Batch, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Compute the largest batch of a training once and drop what comes of it, so that too little memory shows at once.

    Nothing that is learned later depends on it: random numbers and buffers are put back. A note tells of it.
    """
    device = gradients.device
    buffers = [buffer.clone() for buffer in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        moments = _space_for_moments(optimizer)
        gradients(batch, 1 / max(1, batch.count))
        del moments
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for buffer, before in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(before)
    peak = f"; {torch.cuda.max_memory_reserved(device) / 2**30:.2f} GiB at the peak" if device.type == "cuda" else ""
    rows = f"{counted(len(batch.origin.rows), 'example')}, " if batch.origin else ""
    gradients.notes.append(f"tried the largest batch first: {rows}{counted(size_of(batch), 'token')}{peak}")


def _space_for_moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """As much memory as the optimizer takes with its first update; none where it has made one."""
    if optimizer.state:
        return []
    each = 1 if isinstance(optimizer, torch.optim.SGD) else 2
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [torch.empty_like(parameter) for parameter in parameters for _ in range(each)]
