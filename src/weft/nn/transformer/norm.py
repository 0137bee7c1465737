"""How a part f of a block joins the stream x that it reads.

post     LN(x + f(x))        the original; deep stacks need a rate that rises slowly
pre      x + f(LN(x))        a straight way for the gradient; a last LN ends the stack
rezero   x + α f(x)          α starts at 0, so a new block is the identity
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from weft.nn.dropout import Dropout, drop
from weft.nn.transformer.fused_norm import add_norm, norm, serves

Part = Callable[[Tensor], Tensor]

EPSILON: Final = 1e-5
"""The number that a norm adds to the variance, as in torch."""


class LayerNorm(nn.LayerNorm):
    """In the type of its input: under autocast torch's own hands on float32, twice what the next part has to read."""

    def forward(self, x: Tensor) -> Tensor:
        """x (…, width) -> (…, width)."""
        if serves(x):
            return norm(x, self.weight, self.bias, epsilon=self.eps)
        return super().forward(x).to(x.dtype)

    def of_sum(self, x: Tensor, f: Tensor, *, dropout: float) -> Tensor:
        """LN(x + dropout(f))."""
        if serves(x) and f.dtype == x.dtype:
            return add_norm(x, f, self.weight, self.bias, dropout=dropout, epsilon=self.eps)
        return super().forward(x + drop(f, dropout)).to(x.dtype)


class PostNorm(nn.Module):
    """LN(x + f(x))."""

    def __init__(self, width: int, *, dropout: float = 0.0, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.norm = LayerNorm(width, eps=epsilon)
        self.dropout = dropout

    def forward(self, x: Tensor, part: Part) -> Tensor:
        """x (…, width) -> (…, width)."""
        return self.norm.of_sum(x, part(x), dropout=self.dropout if self.training else 0.0)


class PreNorm(nn.Module):
    """x + f(LN(x))."""

    def __init__(self, width: int, *, dropout: float = 0.0, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.norm = LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, part: Part) -> Tensor:
        """x (…, width) -> (…, width)."""
        joined: Tensor = x + self.dropout(part(self.norm(x)))
        return joined


class ReZero(nn.Module):
    """x + α f(x) (Bachlechner et al., 2020)."""

    def __init__(self, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(()))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, part: Part) -> Tensor:
        """x (…, width) -> (…, width)."""
        joined: Tensor = x + self.alpha * self.dropout(part(x))
        return joined


NORMS: Final[dict[str, type[PostNorm | PreNorm | ReZero]]] = {"post": PostNorm, "pre": PreNorm, "rezero": ReZero}
"""Name to class; see `build_norm`."""


def build_norm(name: str, width: int, *, dropout: float, epsilon: float) -> PostNorm | PreNorm | ReZero:
    """The connection of that name; ReZero has no norm, and so no epsilon."""
    if name == "rezero":
        return ReZero(width, dropout=dropout)
    return (PostNorm if name == "post" else PreNorm)(width, dropout=dropout, epsilon=epsilon)
