"""Long short-term memory whose gates see the memory they guard (Gers and Schmidhuber, 2000).

    i  = σ(W_i x + U_i h + P_i c + b_i)
    f  = σ(W_f x + U_f h + P_f c + b_f)
    g  = tanh(W_g x + U_g h + b_g)
    c' = f ⊙ c + i ⊙ g
    o  = σ(W_o x + U_o h + P_o c' + b_o)               the output gate sees the new memory
    h' = o ⊙ tanh(c')

Each P is a diagonal, P c = p ⊙ c, or with peepholes = "full" a matrix. B batch, I input, H hidden. The gates are
stacked in the order i, f, g, o; of the peepholes those of i and f are.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import FORGET_BIAS, Cell, check_option, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.lstm import LSTMState
from weft.settings import Signed

Peepholes = Literal["diagonal", "full"]


class PeepholeLSTM(Cell):
    """The peepholes start at zero, as the LSTM without them: c has no bound, and what it adds could shut a gate."""

    state_type = LSTMState

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        peepholes: Peepholes = "diagonal",
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("peepholes", peepholes, get_args(Peepholes))
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        start_from_input(self.from_input, gates=4)
        start_from_state(self.from_state, gates=4)
        with torch.no_grad():
            self.from_input.bias[hidden_size : 2 * hidden_size] = forget_bias
        self.gates_from_memory, self.output_from_memory = (
            Diagonal(hidden_size, gates) if peepholes == "diagonal" else _zero_matrix(hidden_size, gates)
            for gates in (2, 1)
        )
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """x (B, I), state of h and c (B, H) -> output (B, H), next state."""
        h, c = state
        i, f, g, o = (self.from_input(x) + self.from_state(h)).chunk(4, dim=-1)
        p_i, p_f = self.gates_from_memory(c).chunk(2, dim=-1)
        c = torch.sigmoid(f + p_f) * c + torch.sigmoid(i + p_i) * torch.tanh(g)
        h = torch.sigmoid(o + self.output_from_memory(c)) * torch.tanh(c)
        return h, LSTMState(h, c)


class Diagonal(nn.Module):
    """p ⊙ c for each of some gates, stacked: c (B, H) -> (B, gates · H)."""

    def __init__(self, size: int, gates: int) -> None:
        super().__init__()
        self.gates = gates
        self.weight = nn.Parameter(torch.zeros(gates * size))

    def forward(self, c: Tensor) -> Tensor:
        return self.weight * (c if self.gates == 1 else torch.cat([c] * self.gates, dim=-1))


def _zero_matrix(size: int, gates: int) -> nn.Linear:
    linear = nn.Linear(size, gates * size, bias=False)
    nn.init.zeros_(linear.weight)
    return linear
