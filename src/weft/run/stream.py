"""The stream of batches that a model learns from, epoch after epoch, from any place in it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from torch import nn

from weft.data import Batches, Capacity, Examples, PackedBatches
from weft.data.batches import Rows
from weft.tasks import Batch, Task
from weft.tasks.task import Origin
from weft.training import Streams, TrainConfig

Plan: TypeAlias = Batches | PackedBatches | Streams
"""Which examples go together, and in which order, in every epoch."""


class Place(NamedTuple):
    """The next batch of a stream: its epoch, and its number in that epoch, both counted from 0."""

    epoch: int = 0
    batch: int = 0


class Stream:
    """Batches without end, each epoch in its own order. `start` skips what is before it without making it."""

    def __init__(self, task: Task, examples: Examples, batches: Plan, *, start: Place | None = None) -> None:
        self.task, self.examples, self.batches = task, examples, batches
        self.start = start or Place()
        self._sizes: list[int] = []

    def __iter__(self) -> Generator[Batch, None, None]:
        self._sizes.clear()
        for epoch in count(self.start.epoch):
            chosen, examples = self.batches.epoch(epoch), self._examples(epoch)
            self._sizes.append(len(chosen))
            for number in range(self.start.batch if epoch == self.start.epoch else 0, len(chosen)):
                yield self._make(chosen[number], examples)

    def largest(self) -> Batch | None:
        """The largest batch of the epoch to begin with; None where all are of one size."""
        if isinstance(self.batches, Streams):
            return None
        epoch = self.start.epoch
        return self._make(self.batches.epoch(epoch)[self.batches.largest(epoch)], self._examples(epoch))

    def _examples(self, epoch: int) -> Examples:
        """Those of an epoch; streams read the text itself."""
        if isinstance(self.batches, Streams):
            return self.examples
        return self.examples.epoch(epoch, seed=self.batches.seed)

    def _make(self, rows: Any, examples: Examples) -> Batch:
        if isinstance(self.batches, Streams):
            return self.batches.collate(rows)
        return self._collate(
            examples, rows, self.batches.capacity(rows) if isinstance(self.batches, PackedBatches) else None
        )

    def _collate(self, examples: Examples, rows: Rows, capacity: Capacity | None = None) -> Batch:
        """Collate a batch that can be made again in parts; parts have shapes of their own and fill no capacity."""
        packed = isinstance(self.batches, PackedBatches)
        batch: Batch = self.task.collate(examples, rows, packed=packed, capacity=capacity)
        return replace(batch, origin=Origin(rows, examples, partial(self._collate, examples)))

    def after(self, taken: int) -> Place:
        """The place after so many batches of this stream were taken; a thread may have made more of them by then."""
        epoch, batch = self.start.epoch, self.start.batch + taken
        for size in self._sizes:
            if batch < size:
                break
            epoch, batch = epoch + 1, batch - size
        return Place(epoch, batch)


def build_plan(model: nn.Module, examples: Examples, settings: TrainConfig, *, seed: int) -> Plan:
    """Running text in its order for truncated backpropagation, else batches of rows."""
    if settings.truncate is not None:
        size, parts = settings.batch_tokens, settings.accumulate
        return Streams(examples, batch_tokens=size, truncate=settings.truncate, parts=parts, seed=seed)
    return build_batches(model, examples, batch_tokens=settings.batch_tokens, seed=seed)


def build_batches(model: nn.Module, examples: Examples, *, batch_tokens: int, seed: int = 0) -> Batches | PackedBatches:
    """Packed for a transformer on a GPU, which has kernels for rows of different lengths; elsewhere padded."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    kind = PackedBatches if on_gpu and getattr(model, "packs", False) else Batches
    return kind(examples.lengths, batch_tokens=batch_tokens, seed=seed)
