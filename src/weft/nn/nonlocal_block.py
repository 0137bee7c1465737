"""The non-local block (Wang et al., 2018): self-attention over all places of a picture or a film.

    y_i = Σ_j softmax_j(θ(x_i)·φ(x_j)) g(x_j)                    z_i = x_i + W y_i

θ, φ, g and W are maps of each place alone, 1x1 convolutions; W starts at zero, so that a new block changes nothing and
can be put into a network that is trained already. B batch, C channels, P places in all.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.attention import attend

CONVOLUTIONS: Final = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class NonLocal(nn.Module):
    """x (B, C, …) -> the same, with two `dimensions` of places (B, C, H, W), with three (B, C, T, H, W).

    `inner` are the channels inside, by default half as many.
    """

    def __init__(self, channels: int, *, dimensions: int = 2, inner: int | None = None) -> None:
        super().__init__()
        if dimensions not in CONVOLUTIONS:
            cure = "2 for pictures (B, C, H, W), 3 for films (B, C, T, H, W)"
            raise ConfigError("is not 1, 2 or 3", where=f"dimensions = {dimensions}", cure=cure)
        convolution, inner = CONVOLUTIONS[dimensions], inner or max(1, channels // 2)
        self.dimensions = dimensions
        self.theta, self.phi, self.g = (convolution(channels, inner, 1) for _ in range(3))
        self.output = convolution(inner, channels, 1)
        nn.init.zeros_(self.output.weight)
        assert self.output.bias is not None
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, …) -> (B, C, …)."""
        query, key, value = self._maps(x)
        return self._join(x, attend(query, key, value, score="dot", module=self))

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`forward` with the attention weights: x (B, C, …) -> (B, C, …), weights (B, P, P)."""
        query, key, value = self._maps(x)
        context, weights = attend(query, key, value, score="dot", weights=True, module=self)
        return self._join(x, context), weights

    def _maps(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, P, inner)."""
        if x.dim() != 2 + self.dimensions:
            what = f"{x.dim()} dimensions are not a batch, channels and {self.dimensions} dimensions of places"
            raise ConfigError(what, where="x", cure=f"build it with dimensions={x.dim() - 2}")
        query, key, value = (part(x).flatten(2).transpose(1, 2) for part in (self.theta, self.phi, self.g))
        return query, key, value

    def _join(self, x: Tensor, context: Tensor) -> Tensor:
        """x (B, C, …), context (B, P, inner) -> (B, C, …)."""
        joined: Tensor = x + self.output(context.transpose(1, 2).reshape(x.size(0), -1, *x.shape[2:]))
        return joined
