"""LSTM with exponential gates (sLSTM; Beck et al., 2024).

    i  = W_i x + R_i h + b_i                           log of what enters
    f  = log σ(W_f x + R_f h + b_f)                    log of what stays; without log σ with forget = "exponential"
    g  = tanh(W_g x + R_g h + b_g)
    o  = σ(W_o x + R_o h + b_o)                        what shows
    m' = max(f + m, i)                                 the stabiliser: no exponential below is greater than 1
    c' = exp(f + m - m') ⊙ c + exp(i - m') ⊙ g
    n' = exp(f + m - m') ⊙ n + exp(i - m')             the normaliser: the sum of the weights in c'
    h' = o ⊙ c' / n'

Each R has a block for each of `heads` heads: a head's units see only each other's past. B batch, I input, H hidden. The
gates are stacked in the order i, f, g, o.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, get_args

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus

from weft.limits import LAYERS
from weft.nn.recurrent.cell import FORGET_BIAS, Cell, check_option, settle_biases, start_from_input
from weft.nn.recurrent.head_linear import HeadLinear
from weft.settings import Signed

Forget = Literal["sigmoid", "exponential"]

LEAST_WEIGHT: Final = 1e-30
"""The least sum of weights: before the first step it is zero, and c' / n' must stay finite where it underflows."""


class SLSTMState(NamedTuple):
    """h (B, H) is what the cell shows, c (B, H) what it keeps, n its normaliser, m its stabiliser."""

    h: Tensor
    c: Tensor
    n: Tensor
    m: Tensor


class SLSTM(Cell):
    """`forget_bias` is where b_f starts."""

    state_type = SLSTMState

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        heads: Annotated[int, Field(ge=1, le=LAYERS)] = 1,
        forget: Forget = "sigmoid",
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("forget", forget, get_args(Forget))
        self.forget = forget
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_state = nn.ModuleList(HeadLinear(hidden_size, hidden_size, heads=heads) for _ in range(4))
        start_from_input(self.from_input, gates=4)
        with torch.no_grad():
            self.from_input.bias[hidden_size : 2 * hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: SLSTMState) -> tuple[Tensor, SLSTMState]:
        """x (B, I), state of h, c, n and m (B, H) -> output (B, H), next state."""
        h, c, n, m = state
        past = torch.cat([gate(h) for gate in self.from_state], dim=-1)
        i, f, g, o = (self.from_input(x) + past).chunk(4, dim=-1)
        kept = m + (-softplus(-f) if self.forget == "sigmoid" else f)
        m = torch.maximum(kept, i)
        stays, enters = torch.exp(kept - m), torch.exp(i - m)
        c = stays * c + enters * torch.tanh(g)
        n = stays * n + enters
        h = torch.sigmoid(o) * c / torch.clamp(n, min=LEAST_WEIGHT)
        return h, SLSTMState(h, c, n, m)

    def first_state(self, given: SLSTMState) -> SLSTMState:
        """c is a sum of numbers between -1 and 1, and n that of their weights, so |c| ≤ n in every state."""
        return given._replace(n=torch.maximum(given.n, given.c.abs()))
