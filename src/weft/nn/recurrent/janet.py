"""Just another network: an LSTM with nothing but a forget gate (van der Westhuizen and Lasenby, 2018).

    s  = W_f x + U_f h + b_f
    ĥ  = tanh(W_c x + U_c h + b_c)
    h' = σ(s) ⊙ h + (1 - σ(s - β)) ⊙ ĥ                 with β > 0 more enters than leaves

B batch, I input, H hidden. The gates are stacked in the order f, c.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import FORGET_BIAS, Cell, settle_biases, start_from_input, start_from_state
from weft.settings import Signed


class Janet(Cell):
    """One tensor of state, which is also the output. `forget_bias` is where b_f starts."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        beta: Signed = 1.0,
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.beta = beta
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        start_from_input(self.from_input, gates=2)
        start_from_state(self.from_state, gates=2)
        with torch.no_grad():
            self.from_input.bias[:hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        s, candidate = (self.from_input(x) + self.from_state(h)).chunk(2, dim=-1)
        h = torch.sigmoid(s) * h + (1 - torch.sigmoid(s - self.beta)) * torch.tanh(candidate)
        return h, h
