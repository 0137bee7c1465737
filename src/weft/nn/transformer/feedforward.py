"""The part of a block that treats each position alone.

relu, gelu, silu   W_2 S(W_1 x + b_1) + b_2
gelu_tanh          the same, with gelu(x) ≈ x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
swiglu             W_2 (silu(W_1 x) ⊙ V x)                (Shazeer, 2020)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from weft.nn.dropout import drop
from weft.nn.linear import Linear

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]

FUNCTIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
"""The functions that act on each unit alone, by name."""


class FeedForward(nn.Module):
    """x (…, width) -> (…, width), through `hidden` units, of which training drops a share."""

    def __init__(self, width: int, hidden: int, *, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.activation, self.dropout = activation, dropout
        self.gated = activation == "swiglu"
        self.inner = Linear(width, 2 * hidden if self.gated else hidden, bias=not self.gated)
        self.outer = Linear(hidden, width, bias=not self.gated)
        for part in self.inner.weight.detach().chunk(2 if self.gated else 1):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.outer.weight)
        for linear in (self.inner, self.outer):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (…, width) -> (…, width)."""
        inner: Tensor
        if self.gated:
            gate, value = self.inner(x).chunk(2, dim=-1)
            inner = F.silu(gate) * value
        else:
            inner = self.inner.relu(x) if self.activation == "relu" else FUNCTIONS[self.activation](self.inner(x))
        if self.dropout and self.training:
            inner = drop(inner, self.dropout)
        out: Tensor = self.outer(inner)
        return out
