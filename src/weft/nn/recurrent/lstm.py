"""Long short-term memory (Hochreiter and Schmidhuber, 1997; the forget gate by Gers et al., 2000).

    i  = σ(W_i x + U_i h + b_i)                        what enters
    f  = σ(W_f x + U_f h + b_f)                        what stays
    g  = tanh(W_g x + U_g h + b_g)                     the candidate; σ in its place with candidate = "sigmoid"
    o  = σ(W_o x + U_o h + b_o)                        what shows
    c' = f ⊙ c + i ⊙ g
    h' = o ⊙ tanh(c')

B batch, I input, H hidden. The gates are stacked in the order i, f, g, o.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import FORGET_BIAS, Cell, check_option, settle_biases, start_from_input, start_from_state
from weft.settings import Signed

Candidate = Literal["tanh", "sigmoid"]


class LSTMState(NamedTuple):
    """h (B, H) is what the cell shows, c (B, H) what it keeps."""

    h: Tensor
    c: Tensor


class LSTM(Cell):
    """`forget_bias` is where b_f starts: at 1 the cell remembers from the first update on.

    An `RNN` runs the step over time, as if it called it once for each x_t, and stacks the outputs into (B, T, H).
    """

    state_type = LSTMState

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        forget_bias: Signed = FORGET_BIAS,
        candidate: Candidate = "tanh",
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("candidate", candidate, get_args(Candidate))
        self.candidate = candidate
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        start_from_input(self.from_input, gates=4)
        start_from_state(self.from_state, gates=4)
        with torch.no_grad():
            self.from_input.bias[hidden_size : 2 * hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """x (B, I), state of h and c (B, H) -> output (B, H), next state."""
        h, c = state
        i, f, g, o = (self.from_input(x) + self.from_state(h)).chunk(4, dim=-1)
        g = torch.tanh(g) if self.candidate == "tanh" else torch.sigmoid(g)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * g
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMState(h, c)
