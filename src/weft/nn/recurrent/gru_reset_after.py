"""Gated recurrent unit with the reset gate after the matrix product, as vendor kernels compute it.

    r  = σ(W_r x + U_r h + b_r)
    u  = σ(W_u x + U_u h + b_u)
    ĥ  = tanh(W_c x + b_c + r ⊙ (U_c h + d_c))         d_c a second bias, which the reset gate reaches
    h' = (1 - u) ⊙ h + u ⊙ ĥ                           or u ⊙ h + (1 - u) ⊙ ĥ with update = "state", as in torch

With candidate = "sigmoid" σ takes the place of tanh. B batch, I input, H hidden. The gates are stacked in the order r,
u, c.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, check_option, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.elman import ACTIVATIONS
from weft.nn.recurrent.gru import Update
from weft.nn.recurrent.lstm import Candidate


class GRUResetAfter(Cell):
    """One tensor of state, which is also the output. `update` says what an open gate u takes."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        update: Update = "candidate",
        candidate: Candidate = "tanh",
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("update", update, get_args(Update))
        check_option("candidate", candidate, get_args(Candidate))
        self.update, self.candidate = update, candidate
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.gates_from_state = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size)
        start_from_input(self.from_input, gates=3)
        start_from_state(self.gates_from_state, gates=2)
        start_from_state(self.candidate_from_state, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        gates_x, candidate_x = self.from_input(x).split([2 * self.hidden_size, self.hidden_size], dim=-1)
        r, u = torch.sigmoid(gates_x + self.gates_from_state(h)).chunk(2, dim=-1)
        candidate = ACTIVATIONS[self.candidate](candidate_x + r * self.candidate_from_state(h))
        h = (1 - u) * h + u * candidate if self.update == "candidate" else u * h + (1 - u) * candidate
        return h, h
