"""Batches: the examples that go through a model together, and where they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Examples
from weft.nn import Packing

NAMED_EXAMPLES = 8
"""Examples of a batch that a message names."""


@dataclass(frozen=True)
class Origin:
    """The examples that a batch was made of, and a function that makes a batch of some of them."""

    rows: NDArray[np.int64]
    examples: Examples
    make: Callable[[NDArray[np.int64]], Batch]

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches, each of half the examples."""
        middle = len(self.rows) // 2
        return self.make(self.rows[:middle]), self.make(self.rows[middle:])

    def __str__(self) -> str:
        """The first of the examples, by their places in a file where those are known."""
        some = self.rows[:NAMED_EXAMPLES]
        places = [record.place for record in self.examples.pick(some) if record.place]
        named = ", ".join(places) if places else f"training examples {', '.join(map(str, some.tolist()))}"
        return named if len(self.rows) <= NAMED_EXAMPLES else f"{named} and {len(self.rows) - NAMED_EXAMPLES:,} more"


@dataclass(frozen=True)
class Batch:
    """Examples that go through the model together, as tensors, packings, numbers or None; each task adds its fields."""

    count: int
    """The number of predictions that its loss is a sum over."""
    origin: Origin | None = field(default=None, kw_only=True, repr=False, compare=False)
    """Its examples, for a batch that can be made again in smaller parts."""
    reads: int = field(default=0, kw_only=True)
    """The number of tokens that it reads, where it has fewer predictions than tokens; else 0."""

    @property
    def token_count(self) -> int:
        """The number of tokens for measuring speed: those read, or those predicted where `reads` is 0."""
        return self.reads or self.count

    def to(self, device: torch.device) -> Self:
        """A copy on the device; from pinned memory the copies run beside other work."""
        return self._each(lambda part: _move(part, device))

    def pin(self) -> Self:
        """A copy in pinned memory, from which a GPU copies without the processor."""
        return self._each(lambda part: part.pin_memory())

    def _each(self, change: Callable[[Any], Any]) -> Self:
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(
            self, **{name: change(part) for name, part in parts.items() if isinstance(part, Tensor | Packing)}
        )


def _move(part: Tensor | Packing, device: torch.device) -> Tensor | Packing:
    return part.to(device) if isinstance(part, Packing) else part.to(device, non_blocking=True)
