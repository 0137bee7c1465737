"""Rows cut at resets: each segment runs as a row of its own, so no step of any backend has to look for a reset.

A reset at step t cuts between t - 1 and t. What follows is independent of what came before, in both directions, so the
segments of a row run side by side: more rows and fewer steps, which is never slower than one after the other.

B rows of the batch, T steps, S segments, in the order of rows and, within a row, of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from weft.errors import DataError
from weft.nn.state import State, map_state, select_rows

Run = Callable[[Tensor, Tensor], tuple[list[Tensor], list[State]]]
"""x (S, longest, I) and lengths (S,) -> outputs (S, longest, O) and last states of each direction."""


class Segments(NamedTuple):
    """The segments of a batch; its tensors are on the device of the input.

    first (S,): where a segment begins among all B * T steps. Every row has a segment, one of no steps too. lengths
    (S,); longest: the greatest of them. opens, closes (B,): the first and the last segment of each row. fresh (B,):
    whether a row's first step is a reset.
    """

    first: Tensor
    lengths: Tensor
    longest: int
    opens: Tensor
    closes: Tensor
    fresh: Tensor

    @property
    def total(self) -> int:
        """S"""
        return self.first.size(0)

    def start(self, initial: State, given: State, *, backwards: bool) -> State:
        """The state before each segment (S, n): the initial ones, but where a row begins the one given (B, n). The
        backward direction begins at the end of a row, where no reset can be."""
        if given is None:
            return initial
        begins = self.closes if backwards else self.opens

        def put(mine: Tensor, carried: Tensor) -> Tensor:
            if not backwards:
                carried = torch.where(self.fresh[:, None], mine.index_select(0, begins), carried)
            return mine.index_copy(0, begins, carried.to(mine.dtype))

        return map_state(put, initial, given)

    def finals(self, states: list[State]) -> list[State]:
        """Each direction's states after each segment (S, n) -> those after each row (B, n)."""
        ends = (self.closes, self.opens)
        return [select_rows(state, at) for state, at in zip(states, ends, strict=False)]

    def run_padded(self, run: Run, x: Tensor) -> tuple[list[Tensor], list[State]]:
        """`run` on the segments as padded rows of a batch of their own, for what knows no other rows: x (B, T, I) ->
        outputs (B, T, O) and the states after each segment."""
        outputs, states = run(self.gather(x), self.lengths)
        return [self.scatter(output, x) for output in outputs], states

    def gather(self, x: Tensor) -> Tensor:
        """x (B, T, n) -> (S, longest, n); anything may stand past an end."""
        steps = torch.arange(self.longest, device=x.device)
        places = (self.first[:, None] + steps).clamp(max=x.size(0) * x.size(1) - 1)
        return x.flatten(0, 1)[places]

    def scatter(self, values: Tensor, like: Tensor) -> Tensor:
        """values (S, longest, n) -> (B, T, n) with zeros past a row's end, for the B and T of `like`."""
        steps = torch.arange(self.longest, device=values.device)
        real = steps < self.lengths[:, None]
        whole = values.new_zeros(like.size(0) * like.size(1), values.size(2))
        return whole.index_put(((self.first[:, None] + steps)[real],), values[real]).view(*like.shape[:2], -1)


def cut_at_resets(x: Tensor, lengths: Tensor | None, resets: Tensor) -> Segments | None:
    """x (B, T, I), lengths (B,), resets (B, T) -> the segments, or None where there is no step to reset.

    Resets and lengths on a GPU are read, for which the host waits.
    """
    if resets.shape != x.shape[:2] or resets.dtype != torch.bool:
        what = f"resets are {str(resets.dtype).removeprefix('torch.')} of the shape {tuple(resets.shape)}"
        cure = f"a bool for each step, {tuple(x.shape[:2])}"
        raise DataError(what, where="resets", cure=cure)
    batch, time = resets.shape
    here = resets.to("cpu", copy=True)
    ends = torch.full((batch,), time) if lengths is None else lengths.to("cpu", torch.int64)
    here &= torch.arange(time) < ends[:, None]
    if not bool(here.any()):
        return None
    fresh = here[:, 0].clone()
    here[:, 0] = True
    first = here.flatten().nonzero().squeeze(1)
    row = first // time
    end = row * time + ends[row]
    counts = torch.minimum(torch.cat((first[1:], end[-1:])), end) - first
    opens = (first % time == 0).nonzero().squeeze(1)
    closes = torch.cat((opens[1:], torch.tensor([len(first)]))) - 1
    tables = (first, counts, opens, closes, fresh)
    if x.is_cuda:  # pinned, or each copy would wait for everything that is queued
        first, counts, opens, closes, fresh = (part.pin_memory().to(x.device, non_blocking=True) for part in tables)
    return Segments(first, counts, int(counts.max()), opens, closes, fresh)


# How many segments there are depends on numbers, so torch.compile breaks its graph here and continues after it. This is
# the mark that torch.compiler.disable sets; calling that would load the whole compiler.
setattr(cut_at_resets, "_torchdynamo_disable", True)  # noqa: B010
