"""One vector for a whole sequence: states (B, T, D) and lengths (B,) -> (B, D). A row without steps gives zeros."""

from __future__ import annotations

from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, did_you_mean
from weft.nn.attention import attend, length_mask
from weft.nn.attention.recording import AttendsTo
from weft.nn.recurrent.lengths import last_of


class LastPooling(nn.Module):
    """The state at each row's last step, for states of one direction. A backward direction ends at the first step:
    `RNN.last` takes each direction where it ends."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states (B, T, D), lengths (B,) -> (B, D)."""
        return last_of(states, lengths)


class FirstPooling(nn.Module):
    """The state at the first step of each row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states (B, T, D), lengths (B,) -> (B, D)."""
        if states.size(1) == 0:
            return states.sum(1)
        return states[:, 0].masked_fill(lengths[:, None] == 0, 0)


class MeanPooling(nn.Module):
    """The mean over each row's steps."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states (B, T, D), lengths (B,) -> (B, D)."""
        real = length_mask(lengths, states.size(1))[..., None]
        return states.masked_fill(~real, 0).sum(1) / lengths.clamp(min=1)[:, None]


class MaxPooling(nn.Module):
    """The largest value of each feature over the row's steps."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states (B, T, D), lengths (B,) -> (B, D)."""
        real = length_mask(lengths, states.size(1))[..., None]
        if states.size(1) == 0:
            return states.sum(1)
        largest = states.masked_fill(~real, torch.finfo(states.dtype).min).amax(1)
        return largest.masked_fill(lengths[:, None] == 0, 0)


class AttentionPooling(nn.Module):
    """A mean weighted by a learned query, softmax over the steps of q·tanh(W h + b); with k `queries`, k means."""

    attends_to: ClassVar[AttendsTo] = "pooling"

    def __init__(self, size: int, *, queries: int = 1) -> None:
        super().__init__()
        self.size, self.output_size = size, queries * size
        self.to_key = nn.Linear(size, size)
        self.query = nn.Parameter(torch.empty(queries, size))
        nn.init.normal_(self.query, std=size**-0.5)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states (B, T, D), lengths (B,) -> (B, k·D)."""
        return self.attend(states, lengths)[0]

    def attend(self, states: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """states (B, T, D), lengths (B,) -> pooled (B, k·D), weights (B, T), or (B, k, T) of several queries."""
        keys = torch.tanh(self.to_key(states))
        mask = length_mask(lengths, states.size(1))[:, None]
        query = self.query.expand(states.size(0), -1, -1)
        pooled, weights = attend(query, keys, states, score="dot", mask=mask, weights=True, module=self)
        return pooled.flatten(1), weights[:, 0] if self.query.size(0) == 1 else weights


POOLINGS: Final[dict[str, type[FirstPooling | LastPooling | MeanPooling | MaxPooling | AttentionPooling]]] = {
    "first": FirstPooling,
    "last": LastPooling,
    "mean": MeanPooling,
    "max": MaxPooling,
    "attention": AttentionPooling,
}


class Pooling(nn.Module):
    """The pooling of that name over states of `size` features."""

    def __init__(self, kind: str, size: int) -> None:
        super().__init__()
        if kind not in POOLINGS:
            raise ConfigError(f'"{kind}" is not a pooling', where="pooling", cure=did_you_mean(kind, POOLINGS))
        self.kind = kind
        self.pool = POOLINGS[kind](size)

    def forward(self, states: Tensor, lengths: Tensor | None = None) -> Tensor:
        """states (B, T, D), lengths (B,) or None when every row is T long -> (B, D)."""
        if lengths is None:
            lengths = torch.full((states.size(0),), states.size(1), device=states.device)
        pooled: Tensor = self.pool(states, lengths)
        return pooled
