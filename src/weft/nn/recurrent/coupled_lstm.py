"""Long short-term memory with coupled gates: the input gate is one minus the forget gate.

    f  = σ(W_f x + U_f h + b_f)                        what stays; 1 - f is what enters
    g  = tanh(W_g x + U_g h + b_g)
    o  = σ(W_o x + U_o h + b_o)
    c' = f ⊙ c + (1 - f) ⊙ g                           an average, so c stays between -1 and 1
    h' = o ⊙ tanh(c')

B batch, I input, H hidden. The gates are stacked in the order f, g, o: three where the LSTM has four.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import FORGET_BIAS, Cell, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.lstm import LSTMState
from weft.settings import Signed


class CoupledLSTM(Cell):
    """`forget_bias` is where b_f starts: at 1 the cell remembers from the first update on."""

    state_type = LSTMState

    def __init__(
        self, input_size: int, hidden_size: int, *, forget_bias: Signed = FORGET_BIAS, bias: bool = True
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        start_from_input(self.from_input, gates=3)
        start_from_state(self.from_state, gates=3)
        with torch.no_grad():
            self.from_input.bias[:hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """x (B, I), state of h and c (B, H) -> output (B, H), next state."""
        h, c = state
        f, g, o = (self.from_input(x) + self.from_state(h)).chunk(3, dim=-1)
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMState(h, c)
