"""Self-attention one position at a time, over keys and values in room that was made before.

Row n writes position t of its text into row n of the store, whatever text it continues; origin[n, t] says in which row
position t of its own text lies. When hypotheses change places, only these numbers move. N rows, T positions, H heads.
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
    """What one layer has seen: keys (N, H, T, m) and values (N, H, T, v), of which row n has length[n] positions.

    origin (N, T), or None where every row continues itself.
    """

    keys: Tensor
    values: Tensor
    origin: Tensor | None
    length: Tensor


class KVCache(NamedTuple):
    """What all layers have seen: the store of each, and one origin and length for all of them.

    It is written in place, so it has one future: step it once, and go on from what that gives.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    origin: Tensor | None
    length: Tensor

    @classmethod
    def make(
        cls, keys: tuple[Tensor, ...], values: tuple[Tensor, ...], *, rows: Tensor, room: int, reorders: bool
    ) -> KVCache:
        """Nothing seen yet by the rows 0 … N - 1, in stores as given; none where there is no room."""
        origin = rows[:, None].repeat(1, room) if reorders and room else None
        return cls(keys, values, origin, torch.zeros_like(rows))

    def skip(self, slots: Tensor, lengths: Tensor, *, each: int) -> None:
        """All rows of those slots (n,), of `each`, have so many positions (n,), which lie in the first row of a slot.
        What the lengths are is known on the CPU."""
        self.length.view(-1, each)[slots] = lengths.to(slots.device, non_blocking=True)[:, None]
        if self.origin is not None:
            rows = self.origin.view(-1, each, self.origin.size(1))
            rows[slots, :, : int(lengths.max())] = (slots * each)[:, None, None]

    def layer(self, number: int) -> LayerCache:
        return LayerCache(self.keys[number], self.values[number], self.origin, self.length)

    def end(self) -> KVCache:
        """With the position that every layer has written. A row that nobody reads any more stays where room ends."""
        self.length.add_(1).clamp_(max=self.keys[0].size(2) - 1)
        return self


def attend_cached(
    q: Tensor, k: Tensor, v: Tensor, seen: LayerCache, *, score: str | ScoreFunction = "scaled_dot"
) -> Tensor:
    """q, k (N, H, m), v (N, H, v) of the next position -> (N, H, v); k and v are written to the store, and
    origin notes it."""
    if score == "scaled_dot" and serves(q):
        return attend_next(q, k, v, *seen, scale=q.size(-1) ** -0.5)
    if score == "scaled_dot" and single_query_cpu.LIBRARY.serves(q, seen.keys):
        return single_query_cpu.attend_cached(q, k, v, *seen, scale=q.size(-1) ** -0.5)
    rows = torch.arange(q.size(0), device=q.device)
    seen.keys[rows, :, seen.length] = k
    seen.values[rows, :, seen.length] = v
    if seen.origin is not None:
        seen.origin[rows, seen.length] = rows
    # To ask a GPU how long the longest is would be to wait for it.
    room = int(seen.length.max()) + 1 if q.device.type == "cpu" else seen.keys.size(2)
    places = torch.arange(room, device=q.device)
    if seen.origin is None:
        keys, values = seen.keys[:, :, :room], seen.values[:, :, :room]
    else:
        origin = seen.origin[:, :room]
        keys, values = (store[origin, :, places].transpose(1, 2) for store in (seen.keys, seen.values))
    real = (places <= seen.length[:, None])[:, None]
    # What was never written may be anything, and nothing times that need not be nothing.
    keys, values = (part.masked_fill(~real[..., None], 0) for part in (keys, values))
    return attend(q[:, :, None], keys, values, score=score, mask=real[:, :, None])[:, :, 0]
