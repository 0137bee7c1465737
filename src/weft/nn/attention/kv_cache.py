"""The KV cache: self-attention one position at a time, over keys and values in buffers that are allocated once.

Row n writes position t of its text into row n of the buffers, whatever text it continues; origin[n, t] is the row that
holds position t of its own text. When hypotheses change places, only these numbers move. N rows, T positions, H heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.nn.attention import single_query_cpu
from weft.nn.attention.attend import attend
from weft.nn.attention.recording import recording
from weft.nn.attention.scores import ScoreFunction
from weft.nn.attention.single_query import attend_next, serves


class LayerCache(NamedTuple):
    """The cache of one layer: keys (N, H, T, m) and values (N, H, T, v), of which row n has length[n] positions.

    origin (N, T), or None where every row continues itself.
    """

    keys: Tensor
    values: Tensor
    origin: Tensor | None
    length: Tensor


class KVCache(NamedTuple):
    """The cache of all layers: keys and values of each, and one origin and length for all of them.

    It is written in place, so only its last version is valid.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    origin: Tensor | None
    length: Tensor

    @classmethod
    def make(
        cls, keys: tuple[Tensor, ...], values: tuple[Tensor, ...], *, rows: Tensor, capacity: int, reorders: bool
    ) -> KVCache:
        """An empty cache of `capacity` positions for the rows 0 … N - 1, in the given buffers."""
        origin = rows[:, None].repeat(1, capacity) if reorders and capacity else None
        return cls(keys, values, origin, torch.zeros_like(rows))

    def skip(self, slots: Tensor, lengths: Tensor, *, slot_width: int) -> None:
        """Set the lengths (n,), which are on the CPU, of all rows of the slots (n,), of `slot_width` rows. They lie in
        the first row of a slot."""
        self.length.view(-1, slot_width)[slots] = lengths.to(slots.device, non_blocking=True)[:, None]
        if self.origin is not None:
            rows = self.origin.view(-1, slot_width, self.origin.size(1))
            rows[slots, :, : int(lengths.max())] = (slots * slot_width)[:, None, None]

    def layer(self, number: int) -> LayerCache:
        return LayerCache(self.keys[number], self.values[number], self.origin, self.length)

    def end(self) -> KVCache:
        """Count the position that every layer has written. Rows that are no longer read stop at the capacity."""
        self.length.add_(1).clamp_(max=self.keys[0].size(2) - 1)
        return self


def attend_cached(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cache: LayerCache,
    *,
    score: str | ScoreFunction = "scaled_dot",
    scale: float | None = None,
    hard: bool = False,
    module: nn.Module | None = None,
) -> Tensor:
    """q, k (N, H, m), v (N, H, v) of the next position -> (N, H, v); k and v are written to the cache, and
    origin records it."""
    factor = q.size(-1) ** -0.5 if scale is None else scale
    fused = score == "scaled_dot" and not hard and not recording()
    if fused and serves(q):
        return attend_next(q, k, v, *cache, scale=factor)
    if fused and single_query_cpu.LIBRARY.serves(q, cache.keys):
        return single_query_cpu.attend_cached(q, k, v, *cache, scale=factor)
    rows = torch.arange(q.size(0), device=q.device)
    cache.keys[rows, :, cache.length] = k
    cache.values[rows, :, cache.length] = v
    if cache.origin is not None:
        cache.origin[rows, cache.length] = rows
    # Reading the longest length from a GPU would block until it is idle.
    count = int(cache.length.max()) + 1 if q.device.type == "cpu" else cache.keys.size(2)
    places = torch.arange(count, device=q.device)
    if cache.origin is None:
        keys, values = cache.keys[:, :, :count], cache.values[:, :, :count]
    else:
        origin = cache.origin[:, :count]
        keys, values = (store[origin, :, places].transpose(1, 2) for store in (cache.keys, cache.values))
    real = (places <= cache.length[:, None])[:, None]
    # Positions that were never written may hold NaN or ∞, and 0 · ∞ is not 0.
    keys, values = (part.masked_fill(~real[..., None], 0) for part in (keys, values))
    options: dict[str, Any] = {"score": score, "mask": real[:, :, None], "scale": scale, "hard": hard, "module": module}
    found: Tensor = attend(q[:, :, None], keys, values, **options)
    return found[:, :, 0]
