"""The simple recurrent network (Elman, 1990).

    h' = S(W x + U h + b)                              S one of tanh, relu, sigmoid, identity

B batch, I input, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, did_you_mean
from weft.nn.recurrent.cell import Cell, start_from_input, start_from_state

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": nn.Identity(),
}


class Elman(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, activation: str = "tanh") -> None:
        super().__init__(input_size, hidden_size)
        if activation not in ACTIVATIONS:
            cure = did_you_mean(activation, ACTIVATIONS)
            raise ConfigError(f'"{activation}" is not an activation', where="cell.activation", cure=cure)
        self.activation = activation
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        start_from_input(self.from_input, gates=1)
        start_from_state(self.from_state, gates=1)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        h = ACTIVATIONS[self.activation](self.from_input(x) + self.from_state(h))
        return h, h
