"""Gated causal convolution (Dauphin et al., 2017): a look at the last k steps, half of which decides what passes.

    [a_t; b_t] = W [x_{t-k+1}; …; x_t] + c
    y_t        = x_t + a_t ⊙ σ(b_t)                          k kernel, B batch, T time, D width

Steps before the first are zeros. A stack of L layers sees L (k - 1) + 1 steps and nothing before them, however long the
row is; in return all steps of a row run at once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.linear import Linear


class GatedConvolution(nn.Module):
    """One layer; its state is the last k - 1 inputs (B, k - 1, D)."""

    def __init__(self, width: int, *, kernel: int) -> None:
        super().__init__()
        if kernel < 1:
            raise ConfigError(f"{kernel} sees no step", where="kernel", cure="at least 1")
        self.width, self.kernel = width, kernel
        self.map = Linear(kernel * width, 2 * width)

    def initial_state(self, batch: int, like: Tensor) -> Tensor:
        """Zeros (B, k - 1, D) with the dtype and device of `like`."""
        return like.new_zeros(batch, self.kernel - 1, self.width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        windows = F.pad(x, (0, 0, self.kernel - 1, 0)).unfold(1, self.kernel, 1)
        return self._pass(x, windows.transpose(2, 3).flatten(2))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, D), state (B, k - 1, D) -> output (B, D), next state: the numbers of `forward`."""
        window = torch.cat([state, x[:, None]], dim=1)
        return self._pass(x, window.flatten(1)), window[:, 1:]

    def prefill(self, x: Tensor, lengths: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D) after what left a state, lengths (B,) -> (B, T, D), and the state after each row's last step."""
        seen = torch.cat([state, x], dim=1)
        last = lengths[:, None] + torch.arange(self.kernel - 1, device=x.device)
        after = seen.gather(1, last[..., None].expand(-1, -1, self.width))
        return self._pass(x, seen.unfold(1, self.kernel, 1).transpose(2, 3).flatten(2)), after

    def _pass(self, x: Tensor, window: Tensor) -> Tensor:
        """x (…, D), window (…, k D) with the oldest step first -> (…, D)."""
        return x + F.glu(self.map(window))
