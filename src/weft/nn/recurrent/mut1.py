"""MUT1, the first of three cells found by a search over architectures (Jozefowicz et al., 2015).

    z  = σ(W_z x + b_z)                                how much of the candidate is taken; it never sees the past
    r  = σ(W_r x + U_r h + b_r)
    h' = tanh(U_c (r ⊙ h) + tanh(x̂) + b_c) ⊙ z + h ⊙ (1 - z)

x̂ is x itself where input and hidden size agree, else a learned map of x to the hidden size. B batch, I input,
H hidden. The gates are stacked in the order z, r.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input, start_from_state


class MUT1(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.reset_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size)
        self.resize = resized(input_size, hidden_size)
        start_from_input(self.from_input, gates=2)
        start_from_state(self.reset_from_state, gates=1)
        start_from_state(self.candidate_from_state, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        z, r = self.from_input(x).chunk(2, dim=-1)
        z, r = torch.sigmoid(z), torch.sigmoid(r + self.reset_from_state(h))
        candidate = torch.tanh(self.candidate_from_state(r * h) + torch.tanh(self.resize(x)))
        h = candidate * z + h * (1 - z)
        return h, h


def resized(input_size: int, hidden_size: int) -> nn.Module:
    """x̂: x (B, I) -> (B, H); nothing to learn where the sizes agree."""
    if input_size == hidden_size:
        return nn.Identity()
    resize = nn.Linear(input_size, hidden_size, bias=False)
    start_from_input(resize, gates=1)
    return resize
