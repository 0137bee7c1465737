"""Minimal LSTM that is linear in its state (Feng et al., 2024).

    f  = σ(W_f x + b_f)                                what stays
    i  = σ(W_i x + b_i)                                what enters
    ĥ  = g(W_h x + b_h)                                g as in the minimal GRU
    h' = (f ⊙ h + i ⊙ ĥ) / (f + i)                     an average; with normalise = false f ⊙ h + i ⊙ ĥ

No matrix product is left in the loop over time. B batch, I input, H hidden. The gates are stacked in the order f, i, h.
"""

from __future__ import annotations

from typing import Final, get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import FORGET_BIAS, Cell, check_option, settle_biases, start_from_input
from weft.nn.recurrent.min_gru import LinearCandidate, shape_candidate
from weft.settings import Signed

LEAST_GATE: Final = -40.0
"""The argument below which σ is an exponential; the larger of both gates is computed where it is at least that."""


class MinLSTM(Cell):
    """One tensor of state, which is also the output. `forget_bias` is where b_f starts."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        candidate: LinearCandidate = "identity",
        normalise: bool = True,
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("candidate", candidate, get_args(LinearCandidate))
        self.candidate, self.normalise = candidate, normalise
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        start_from_input(self.from_input, gates=3)
        with torch.no_grad():
            self.from_input.bias[:hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        f, i, candidate = self.from_input(x).chunk(3, dim=-1)
        if self.normalise:  # of two tiny gates, as of two exponentials, the share stays when both arguments grow alike
            raised = torch.relu(LEAST_GATE - torch.maximum(f, i)).detach()
            f, i = f + raised, i + raised
        f, i = torch.sigmoid(f), torch.sigmoid(i)
        if self.normalise:
            total = f + i
            f, i = f / total, i / total
        h = f * h + i * shape_candidate(candidate, self.candidate)
        return h, h
