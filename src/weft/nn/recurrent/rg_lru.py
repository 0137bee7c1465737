"""Real-gated linear recurrent unit (De et al., 2024).

    r  = σ(W_r x + b_r)                                how fast the past fades
    i  = σ(W_i x + b_i)                                what enters
    a  = σ(λ)^(8 r)                                    between σ(λ)⁸ and 1
    h' = a ⊙ h + √(1 - a²) ⊙ i ⊙ x̂                     the square root keeps the variance of h

The cell is linear in its state, and no matrix product is left in the loop over time. λ starts so that σ(λ)⁸ lies
between 0.9 and 0.999. x̂ is x itself where input and hidden size agree, else a learned map of x. B batch, I input,
H hidden. The gates are stacked in the order r, i.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from weft.nn.recurrent.cell import Cell, settle_biases, start_from_input
from weft.nn.recurrent.mut1 import resized

SHARPNESS: Final = 8.0
"""The factor of r in the exponent."""

LEAST_DECAYS: Final = (0.9, 0.999)
"""The range of σ(λ)⁸ in a new cell."""

MIN_SQUARE: Final = 1e-6
"""The least 1 - a²: the gradient of its square root has no bound."""


class RGLRU(Cell):
    """One tensor of state, which is also the output."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.resize = resized(input_size, hidden_size)
        self.decay = nn.Parameter(torch.empty(hidden_size))
        start_from_input(self.from_input, gates=2)
        with torch.no_grad():
            least = torch.empty(hidden_size).uniform_(*LEAST_DECAYS) ** (1 / SHARPNESS)
            self.decay.copy_(torch.log(least / (1 - least)))
        settle_biases(self, bias=bias)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, I), h (B, H) -> output (B, H), next state (B, H)."""
        r, i = torch.sigmoid(self.from_input(x)).chunk(2, dim=-1)
        a = torch.exp(-SHARPNESS * softplus(-self.decay) * r)  # log σ(λ) = -softplus(-λ)
        h = a * h + torch.sqrt(torch.clamp(1 - a * a, min=MIN_SQUARE)) * i * self.resize(x)
        return h, h
