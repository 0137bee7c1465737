"""The simple recurrent network (Elman, 1990).

    h' = S(W x + U h + b)                              S one of tanh, relu, sigmoid, identity

With feedback the cell has an output y of its own, and the previous one joins the input:

    h' = S(W (x + T y) + U h + b)                      T brings the output to the size of the input
    y' = S(V h' + d)                                   without S, T y would be no more than another map of h

B batch, I input, H hidden; y has the size of h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor, nn

from weft.nn.recurrent.cell import Cell, check_option, settle_biases, start_from_input, start_from_state
from weft.nn.state import State

Activation = Literal["tanh", "relu", "sigmoid", "identity"]

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": nn.Identity(),
}


class FeedbackState(NamedTuple):
    """h (B, H) is the hidden state, y (B, H) the output that the next step is given."""

    h: Tensor
    y: Tensor


class Elman(Cell):
    """One tensor of state, which is also the output; with `feedback` a `FeedbackState`, whose y is the output."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        activation: Activation = "tanh",
        feedback: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_option("activation", activation, ACTIVATIONS)
        self.activation, self.feedback = activation, feedback
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        start_from_input(self.from_input, gates=1)
        start_from_state(self.from_state, gates=1)
        if feedback:
            self.to_input = nn.Linear(hidden_size, input_size, bias=False)
            self.to_output = nn.Linear(hidden_size, hidden_size)
            start_from_input(self.to_input, gates=1)
            start_from_input(self.to_output, gates=1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, I), state of (B, H) -> output (B, H), next state."""
        S = ACTIVATIONS[self.activation]
        if not self.feedback:
            h = S(self.from_input(x) + self.from_state(state))
            return h, h
        h, y = state
        h = S(self.from_input(x + self.to_input(y)) + self.from_state(h))
        y = S(self.to_output(h))
        return y, FeedbackState(h, y)

    def zero_state(self, batch: int, like: Tensor) -> State:
        """Before the first step there was no output: y is zero too."""
        h = super().zero_state(batch, like)
        return FeedbackState(h, torch.zeros_like(h)) if self.feedback else h
