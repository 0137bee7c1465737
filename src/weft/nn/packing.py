"""Rows of different lengths laid end to end, without padding.

    padded   a b c · ·        packed   a b c d e f g h        offsets    0 3 8
             d e f g h                                        positions  0 1 2 0 1 2 3 4
                                                              rows       0 0 0 1 1 1 1 1

Everything that treats tokens one by one (maps, norms, losses) needs no more than the tokens; attention needs to know
where rows begin. B rows of at most T tokens, N tokens in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """How the rows lie. The plain numbers are known without asking the device."""

    offsets: Tensor
    """(B + 1,) int32: where each row begins, and where the last one ends."""
    positions: Tensor
    """(N,) the place of each token in its row."""
    rows: Tensor
    """(N,) the row of each token."""
    longest: int
    count: int
    """Rows."""

    @classmethod
    def of(cls, lengths: Tensor | NDArray[Any]) -> Packing:
        """From lengths (B,) that are known to the processor."""
        lengths = torch.as_tensor(lengths, device="cpu").to(torch.int64)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        rows = torch.repeat_interleave(lengths)
        positions = torch.arange(len(rows)) - offsets[rows]
        return cls(offsets.int(), positions, rows, int(lengths.amax()) if len(lengths) else 0, len(lengths))

    @classmethod
    def filled(cls, lengths: Tensor | NDArray[Any], *, rows: int, tokens: int, longest: int) -> Packing:
        """From lengths (B,), with rows added up to `rows` and `tokens` in all: packings of one size have one shape.

        The missing tokens become rows of up to `longest`, and the rows still missing are empty.
        """
        lengths = torch.as_tensor(lengths, device="cpu").to(torch.int64)
        whole, part = divmod(tokens - int(lengths.sum()), longest)
        extra = torch.zeros(rows - len(lengths), dtype=torch.int64)
        extra[:whole] = longest
        extra[whole : whole + 1] = part
        packing = cls.of(torch.cat([lengths, extra]))
        return replace(packing, longest=longest)

    @property
    def lengths(self) -> Tensor:
        """(B,)."""
        return self.offsets.diff().long()

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors of the packing that are on the device."""
        return self.offsets, self.positions, self.rows

    def to(self, device: torch.device) -> Packing:
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Packing:
        return self._with(torch.Tensor.pin_memory)

    def _with(self, change: Callable[[Tensor], Tensor]) -> Packing:
        offsets, positions, rows = (change(tensor) for tensor in self.tensors)
        return Packing(offsets, positions, rows, self.longest, self.count)

    def pad(self, x: Tensor) -> Tensor:
        """x (N, …) -> (B, T, …), zero past each row's end."""
        padded = x.new_zeros(self.count, self.longest, *x.shape[1:])
        return padded.index_put((self.rows, self.positions), x)

    def unpad(self, x: Tensor) -> Tensor:
        """x (B, T, …) -> (N, …)."""
        return x[self.rows, self.positions]
