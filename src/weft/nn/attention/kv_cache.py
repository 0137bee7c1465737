"""Self-attention one position at a time, over keys and values in buffers allocated before.

Row n writes position t of its text into row n of the store, whatever text it continues; origin[n, t] is the row that
holds position t of its own text. When hypotheses change places, only these numbers move. N rows, T positions, H heads.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.nn.attention import single_query_cpu
from weft.nn.attention.attend import attend
from weft.nn.attention.scores import ScoreFunction
from weft.nn.attention.single_query import attend_next, serves


class LayerCache(NamedTuple):
    """The cache of one layer: keys (N, H, T, m) and values (N, H, T, v), of which row n has length[n] positions.

    origin is (N, T), or None if every row continues its own text.
    """

    keys: Tensor
    values: Tensor
    origin: Tensor | None
    length: Tensor


class KVCache(NamedTuple):
    """The cache of all layers: the store of each, and one origin and length for all of them.

    It is written in place: after a step only the cache that the step returns is valid.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    origin: Tensor | None
    length: Tensor

    @classmethod
    def make(
        cls, keys: tuple[Tensor, ...], values: tuple[Tensor, ...], *, rows: Tensor, capacity: int, reorders: bool
    ) -> KVCache:
        """An empty cache for the rows 0 … N - 1 in the given stores, which are none if `capacity` is 0."""
        origin = rows[:, None].repeat(1, capacity) if reorders and capacity else None
        return cls(keys, values, origin, torch.zeros_like(rows))

    def skip(self, slots: Tensor, lengths: Tensor, *, each: int) -> None:
        """Set the lengths (n,) of all rows of the slots (n,), `each` per slot; the positions lie in the first row of a
        slot. The lengths are on the CPU."""
        self.length.view(-1, each)[slots] = lengths.to(slots.device, non_blocking=True)[:, None]
        if self.origin is not None:
            rows = self.origin.view(-1, each, self.origin.size(1))
            rows[slots, :, : int(lengths.max())] = (slots * each)[:, None, None]

    def layer(self, number: int) -> LayerCache:
        return LayerCache(self.keys[number], self.values[number], self.origin, self.length)

    def end(self) -> KVCache:
        """Count the position that every layer has written. A row that is no longer read stays at the last position."""
        self.length.add_(1).clamp_(max=self.keys[0].size(2) - 1)
        return self


def attend_cached(
    q: Tensor, k: Tensor, v: Tensor, seen: LayerCache, *, score: str | ScoreFunction = "scaled_dot"
) -> Tensor:
    """q, k (N, H, m), v (N, H, v) of the next position -> (N, H, v); k and v are written to the store,
    and the row to origin."""
    if score == "scaled_dot" and serves(q):
        return attend_next(q, k, v, *seen, scale=q.size(-1) ** -0.5)
    if score == "scaled_dot" and single_query_cpu.LIBRARY.serves(q, seen.keys):
        return single_query_cpu.attend_cached(q, k, v, *seen, scale=q.size(-1) ** -0.5)
    rows = torch.arange(q.size(0), device=q.device)
    seen.keys[rows, :, seen.length] = k
    seen.values[rows, :, seen.length] = v
    if seen.origin is not None:
        seen.origin[rows, seen.length] = rows
    # Reading the longest length from a GPU would block until the GPU has finished.
    end = int(seen.length.max()) + 1 if q.device.type == "cpu" else seen.keys.size(2)
    places = torch.arange(end, device=q.device)
    if seen.origin is None:
        keys, values = seen.keys[:, :, :end], seen.values[:, :, :end]
    else:
        origin = seen.origin[:, :end]
        keys, values = (store[origin, :, places].transpose(1, 2) for store in (seen.keys, seen.values))
    real = (places <= seen.length[:, None])[:, None]
    # Positions never written may hold NaN or infinity, and zero times these is not zero.
    keys, values = (part.masked_fill(~real[..., None], 0) for part in (keys, values))
    return attend(q[:, :, None], keys, values, score=score, mask=real[:, :, None])[:, :, 0]
