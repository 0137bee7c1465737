"""Minimal GRU that is linear in its state (Feng et al., 2024).

    z  = σ(W_z x + b_z)                                how much of the candidate is taken
    ĥ  = g(W_h x + b_h)                                g(a) = a by default
    h' = (1 - z) ⊙ h + z ⊙ ĥ

With candidate = "positive" g(a) = a + ½ where a ≥ 0, else σ(a). Neither gate nor candidate sees the past, so no matrix
product is left in the loop over time. B batch, I input, H hidden. The gates are stacked in the order z, h.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, check_option, settle_biases, start_from_input
from weft.nn.recurrent.elman import ACTIVATIONS

LinearCandidate = Literal["identity", "positive", "tanh", "sigmoid"]


class MinGRU(Cell):
    """One tensor of state, which is also the output; with `candidate = "positive"` it is never negative."""

    def __init__(
        self, input_size: int, hidden_size: int, *, candidate: LinearCandidate = "identity", bias: bool = True
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("candidate", candidate, get_args(LinearCandidate))
        self.candidate = candidate
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        start_from_input(self.from_input, gates=2)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        z, candidate = self.from_input(x).chunk(2, dim=-1)
        z = torch.sigmoid(z)
        h = (1 - z) * h + z * shape_candidate(candidate, self.candidate)
        return h, h


def shape_candidate(a: Tensor, kind: LinearCandidate) -> Tensor:
    """g(a) of a cell that is linear in its state (B, H)."""
    if kind == "positive":
        return torch.where(a >= 0, a + 0.5, torch.sigmoid(a))
    return ACTIVATIONS[kind](a)
