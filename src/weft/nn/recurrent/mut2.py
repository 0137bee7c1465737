"""MUT2, the second of three cells found by a search over architectures (Jozefowicz et al., 2015).

    z  = σ(W_z x + U_z h + b_z)
    r  = σ(x̂ + U_r h + b_r)                            the reset gate reads the input as it is
    h' = tanh(U_c (r ⊙ h) + W_c x + b_c) ⊙ z + h ⊙ (1 - z)

x̂ is x itself where input and hidden size agree, else a learned map of x to the hidden size. B batch, I input,
H hidden. The maps of x are stacked in the order z, c, those of h in the order z, r.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.mut1 import resized


class MUT2(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.gates_from_state = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.resize = resized(input_size, hidden_size)
        self.reset_bias = nn.Parameter(torch.zeros(hidden_size))
        start_from_input(self.from_input, gates=2)
        start_from_state(self.gates_from_state, gates=2)
        start_from_state(self.candidate_from_state, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        z_x, candidate_x = self.from_input(x).chunk(2, dim=-1)
        z_h, r_h = self.gates_from_state(h).chunk(2, dim=-1)
        r_x = self.resize(x) + r_h
        z, r = torch.sigmoid(z_x + z_h), torch.sigmoid(r_x if self.reset_bias is None else r_x + self.reset_bias)
        candidate = torch.tanh(self.candidate_from_state(r * h) + candidate_x)
        h = candidate * z + h * (1 - z)
        return h, h
