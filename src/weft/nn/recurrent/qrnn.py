"""Quasi-recurrent network (Bradbury et al., 2017): gates of a window over the input, and an average over time.

    X  = [x_{t-k+1}; …; x_t]                           the window, k = `window` inputs, zeros before the first
    z  = tanh(W_z X + b_z)
    f  = σ(W_f X + b_f)                                what stays
    o  = σ(W_o X + b_o)                                what shows
    c' = f ⊙ c + (1 - f) ⊙ z
    h' = o ⊙ c'

The cell is linear in c. B batch, I input, H hidden, k window. The gates are stacked in the order z, f, o.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.limits import WINDOW_WORDS
from weft.nn.recurrent.cell import FORGET_BIAS, Cell, settle_biases, start_from_input
from weft.nn.state import State
from weft.settings import Signed


class QRNNState(NamedTuple):
    """c (B, H) is the memory, inputs (B, (k - 1)·I) are those before the next one, the oldest first."""

    c: Tensor
    inputs: Tensor


class QRNN(Cell):
    """`forget_bias` is where b_f starts. A window of 1 needs no inputs in the state: it is c alone."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        window: Annotated[int, Field(ge=1, le=WINDOW_WORDS)] = 2,
        forget_bias: Signed = FORGET_BIAS,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if window < 1:
            raise ConfigError("has no input", where=f"cell.window = {window}", cure="at least 1")
        self.window = window
        self.from_window = nn.Linear(window * input_size, 3 * hidden_size)
        start_from_input(self.from_window, gates=3)
        with torch.no_grad():
            self.from_window.bias[hidden_size : 2 * hidden_size] = forget_bias
        settle_biases(self, bias=bias, forget_bias=forget_bias)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, I), state of c (B, H) and the inputs before -> output (B, H), next state."""
        c, seen = (state, x) if self.window == 1 else (state.c, torch.cat([state.inputs, x], dim=-1))
        z, f, o = self.from_window(seen).chunk(3, dim=-1)
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(z)
        return torch.sigmoid(o) * c, c if self.window == 1 else QRNNState(c, seen[:, self.input_size :])

    def zero_state(self, batch: int, like: Tensor) -> State:
        """Before the first input there were zeros."""
        c = super().zero_state(batch, like)
        return c if self.window == 1 else QRNNState(c, like.new_zeros(batch, (self.window - 1) * self.input_size))
