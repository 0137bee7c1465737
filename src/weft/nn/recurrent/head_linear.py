"""A linear map with a block for each head: the outputs of a head see its own inputs alone.

y_k = W_k x_k          k a head; together one matrix with the blocks W_k on its diagonal
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.errors import ConfigError


class HeadLinear(nn.Module):
    """x (…, input_size) -> (…, output_size), both split evenly among the heads; no bias.

    The matrix with all blocks is made of the weights alone, so the engine makes it once for all time steps.
    """

    def __init__(self, input_size: int, output_size: int, *, heads: int) -> None:
        super().__init__()
        if heads < 1 or input_size % heads or output_size % heads:
            cure = f"choose a number that divides {input_size}"
            raise ConfigError(f"do not divide {input_size} units", where=f"cell.heads = {heads}", cure=cure)
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(heads, output_size // heads, input_size // heads))
        with torch.no_grad():
            for block in self.weight:
                nn.init.orthogonal_(block)

    def forward(self, x: Tensor) -> Tensor:
        if self.heads == 1:
            return linear(x, self.weight[0])
        return linear(x, torch.block_diag(*self.weight))  # type: ignore[no-untyped-call]
