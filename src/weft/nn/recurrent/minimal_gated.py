"""Minimal gated unit (Zhou et al., 2016): one gate where the GRU has two.

    f  = σ(W_f x + U_f h + b_f)                        what the candidate may see, and how much of it is taken
    ĥ  = tanh(W_c x + U_c (f ⊙ h) + b_c)
    h' = (1 - f) ⊙ h + f ⊙ ĥ

B batch, I input, H hidden. The gates are stacked in the order f, c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input, start_from_state


class MinimalGated(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.gate_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        start_from_input(self.from_input, gates=2)
        start_from_state(self.gate_from_state, gates=1)
        start_from_state(self.candidate_from_state, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        gate_x, candidate_x = self.from_input(x).chunk(2, dim=-1)
        f = torch.sigmoid(gate_x + self.gate_from_state(h))
        h = (1 - f) * h + f * torch.tanh(candidate_x + self.candidate_from_state(f * h))
        return h, h
