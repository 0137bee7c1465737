"""Hierarchically gated recurrent network (Qin et al., 2023), in real numbers.

    f  = γ + (1 - γ) ⊙ σ(W_f x + b_f)                  what stays, at least γ
    ĥ  = silu(W_c x + b_c)
    c' = f ⊙ c + (1 - f) ⊙ ĥ
    h' = σ(W_o x + b_o) ⊙ c'

The cell is linear in its state, and no matrix product is left in the loop over time. γ is `lower_bound`: in the paper
it rises from layer to layer, so that upper layers remember longer. B batch, I input, H hidden. The gates are stacked in
the order f, c, o.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu

from weft.errors import ConfigError
from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input


class HGRN(Cell):
    """The state is c; the output h is not read by the next step."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        lower_bound: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not 0 <= lower_bound < 1:
            where, cure = f"cell.lower_bound = {lower_bound:g}", "choose it from 0 up to, but not including, 1"
            raise ConfigError("is no share that stays", where=where, cure=cure)
        self.lower_bound = lower_bound
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        start_from_input(self.from_input, gates=3)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), c (B, H) -> output (B, H), next state (B, H)."""
        f, candidate, o = self.from_input(x).chunk(3, dim=-1)
        f = self.lower_bound + (1 - self.lower_bound) * torch.sigmoid(f)
        c = f * c + (1 - f) * silu(candidate)
        return torch.sigmoid(o) * c, c
