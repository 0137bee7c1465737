"""MUT3, the third of three cells found by a search over architectures (Jozefowicz et al., 2015).

    z  = σ(W_z x + U_z tanh(h) + b_z)                  the update gate sees a squashed past
    r  = σ(W_r x + U_r h + b_r)
    h' = tanh(U_c (r ⊙ h) + W_c x + b_c) ⊙ z + h ⊙ (1 - z)

B batch, I input, H hidden. The maps of x are stacked in the order z, r, c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input, start_from_state


class MUT3(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.update_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.reset_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        start_from_input(self.from_input, gates=3)
        for linear in (self.update_from_state, self.reset_from_state, self.candidate_from_state):
            start_from_state(linear, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        z, r, candidate_x = self.from_input(x).chunk(3, dim=-1)
        z = torch.sigmoid(z + self.update_from_state(torch.tanh(h)))
        r = torch.sigmoid(r + self.reset_from_state(h))
        candidate = torch.tanh(self.candidate_from_state(r * h) + candidate_x)
        h = candidate * z + h * (1 - z)
        return h, h
