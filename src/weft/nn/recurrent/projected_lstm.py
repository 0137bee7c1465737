"""Long short-term memory with a projected output (Sak et al., 2014): a wide memory behind a narrow state.

    i, f, o = σ(W x + U h + b),  g = tanh(W_g x + U_g h + b_g)
    c' = f ⊙ c + i ⊙ g
    h' = W_p (o ⊙ tanh(c'))                            no bias: the gates that read h' have theirs

B batch, I input, H hidden, P projection. h has P numbers, c has H, so that the products with U cost P/H of an LSTM's.
The gates are stacked in the order i, f, g, o.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.recurrent.cell import FORGET_BIAS, Cell, settle_biases, start_from_input, start_from_state
from weft.nn.recurrent.lstm import LSTMState
from weft.settings import Signed, Size


class ProjectedLSTM(Cell):
    """`projection` is the size of h and of the output; by default half the hidden size."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        projection: Size | None = None,
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if projection is not None and projection < 1:
            raise ConfigError("should be greater than or equal to 1", where=f"cell.projection = {projection}")
        self.output_size = projection or max(1, hidden_size // 2)
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_state = nn.Linear(self.output_size, 4 * hidden_size, bias=False)
        self.project = nn.Linear(hidden_size, self.output_size, bias=False)
        start_from_input(self.from_input, gates=4)
        start_from_state(self.from_state, gates=4)
        start_from_input(self.project, gates=1)
        with torch.no_grad():
            self.from_input.bias[hidden_size : 2 * hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """x (B, I), state of h (B, P) and c (B, H) -> output (B, P), next state."""
        h, c = state
        i, f, g, o = (self.from_input(x) + self.from_state(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = self.project(torch.sigmoid(o) * torch.tanh(c))
        return h, LSTMState(h, c)

    def zero_state(self, batch: int, like: Tensor) -> LSTMState:
        """h and c, each of its own size."""
        return LSTMState(like.new_zeros(batch, self.output_size), like.new_zeros(batch, self.hidden_size))
