"""Gated recurrent unit (Cho et al., 2014), the reset gate before the matrix product.

    r  = σ(W_r x + U_r h + b_r)                        what the candidate may see of the past
    u  = σ(W_u x + U_u h + b_u)                        how much of the candidate is taken
    ĥ  = tanh(W_c x + U_c (r ⊙ h) + b_c)               σ in place of tanh with candidate = "sigmoid"
    h' = (1 - u) ⊙ h + u ⊙ ĥ                           or u ⊙ h + (1 - u) ⊙ ĥ with update = "state"

B batch, I input, H hidden. The gates are stacked in the order r, u, c. No vendor kernel computes this one;
`gru_reset_after` is the one they have.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, check_option, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.elman import ACTIVATIONS
from weft.nn.recurrent.lstm import Candidate

Update = Literal["candidate", "state"]


class GRU(Cell):
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
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        start_from_input(self.from_input, gates=3)
        start_from_state(self.gates_from_state, gates=2)
        start_from_state(self.candidate_from_state, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        gates_x, candidate_x = self.from_input(x).split([2 * self.hidden_size, self.hidden_size], dim=-1)
        r, u = torch.sigmoid(gates_x + self.gates_from_state(h)).chunk(2, dim=-1)
        candidate = ACTIVATIONS[self.candidate](candidate_x + self.candidate_from_state(r * h))
        h = (1 - u) * h + u * candidate if self.update == "candidate" else u * h + (1 - u) * candidate
        return h, h
