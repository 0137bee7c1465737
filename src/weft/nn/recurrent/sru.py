"""Simple recurrent unit (Lei et al., 2018).

    f  = σ(W_f x + v_f ⊙ c + b_f)                      what stays
    r  = σ(W_r x + v_r ⊙ c + b_r)                      how much of the memory is shown, and not of the input
    c' = f ⊙ c + (1 - f) ⊙ W x
    h' = r ⊙ c' + α (1 - r) ⊙ x̂                        α keeps the variance of x̂ at the start: √(1 + 2 e^b_r)

The state meets vectors only, so no matrix product is left in the loop over time; with state_in_gates = false (v = 0)
the cell is linear in its state. x̂ is x itself where input and hidden size agree, else a learned map of x. B batch,
I input, H hidden. The gates are stacked in the order f, r, c; of the vectors v those of f and r are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input
from weft.nn.recurrent.mut1 import resized
from weft.nn.recurrent.peephole_lstm import Diagonal
from weft.settings import Signed


class SRU(Cell):
    """The state is c; the output h is not read by the next step. `highway_bias` is where b_r starts."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        state_in_gates: bool = True,
        highway_bias: Signed = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if highway_bias and not bias:
            where, cure = f"cell.highway_bias = {highway_bias:g}", "remove it, or set bias = true"
            raise ConfigError("there is no bias to start there", where=where, cure=cure)
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.from_memory = Diagonal(hidden_size, 2) if state_in_gates else None
        self.resize = resized(input_size, hidden_size)
        self.scale = math.sqrt(1 + 2 * math.exp(highway_bias))
        start_from_input(self.from_input, gates=3)
        with torch.no_grad():
            self.from_input.bias[hidden_size : 2 * hidden_size] = highway_bias
            if self.from_memory is not None:
                self.from_memory.weight.uniform_(-1, 1)
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), c (B, H) -> output (B, H), next state (B, H)."""
        gates, candidate = self.from_input(x).split([2 * self.hidden_size, self.hidden_size], dim=-1)
        if self.from_memory is not None:
            gates = gates + self.from_memory(c)
        f, r = torch.sigmoid(gates).chunk(2, dim=-1)
        c = f * c + (1 - f) * candidate
        h = r * c + self.scale * (1 - r) * self.resize(x)
        return h, c
