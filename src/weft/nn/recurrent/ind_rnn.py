"""Independently recurrent network (Li et al., 2018): each unit sees its own past alone.

    h' = S(W x + u ⊙ h + b)                            S one of relu, tanh, sigmoid, identity

No matrix product is left in the loop over time. u starts between 0 and 1, so that units remember for different times;
|u| ≤ 1 is not enforced. B batch, I input, H hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, check_option, settle_biases, start_from_input
from weft.nn.recurrent.elman import ACTIVATIONS, Activation
from weft.nn.recurrent.peephole_lstm import Diagonal


class IndRNN(Cell):
    """One tensor of state, which is also the output."""

    def __init__(
        self, input_size: int, hidden_size: int, *, activation: Activation = "relu", bias: bool = True
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = Diagonal(hidden_size, 1)
        start_from_input(self.from_input, gates=1)
        with torch.no_grad():
            self.from_state.weight.uniform_(0, 1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        h = ACTIVATIONS[self.activation](self.from_input(x) + self.from_state(h))
        return h, h
