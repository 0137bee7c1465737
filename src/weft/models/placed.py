"""The input of a transformer's blocks: token vectors with their positions.

    vectors -> + positions -> the width of the blocks -> norm, if there is one -> dropout

B batch, T positions, N packed positions or hypotheses, E size of the vectors, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.errors import DataError
from weft.models.transformer_settings import TransformerConfig
from weft.nn import POSITIONS, Dropout, Packing
from weft.nn.kernels import power_of_two
from weft.nn.positions import SinusoidPositions
from weft.nn.transformer import Lengths
from weft.nn.transformer.norm import LayerNorm


class Placed(nn.Module):
    """Vectors with their positions, mapped to the width of the blocks."""

    def __init__(self, config: TransformerConfig, size: int) -> None:
        super().__init__()
        self.longest = config.longest
        self.positions = POSITIONS[config.positions](size, config.max_positions)
        placed = self.positions.output_size
        self.widen = nn.Linear(placed, config.width) if placed != config.width else None
        self.norm = LayerNorm(config.width, eps=config.norm_epsilon) if config.embedding_norm else None
        self.dropout = Dropout(config.dropout)

    def reach(self, longest: int) -> None:
        """Prepare so many positions, which are then read one at a time."""
        if isinstance(self.positions, SinusoidPositions):
            self.positions.reach(power_of_two(longest))

    def next(self, vectors: Tensor, places: Tensor) -> Tensor:
        """vectors (N, E) at positions (N) that `reach` has prepared -> (N, D)."""
        within = {"within": True} if isinstance(self.positions, SinusoidPositions) else {}
        return self._finish(self.positions(vectors, places, **within))

    def _finish(self, x: Tensor) -> Tensor:
        """Vectors with their positions -> vectors of the width of the blocks, normalised where there is a norm."""
        x = x if self.widen is None else self.widen(x)
        return x if self.norm is None else self.norm(x)

    def forward(self, vectors: Tensor, places: Tensor, longest: int) -> Tensor:
        """vectors (B, T, E) and positions (T), or both packed -> (B, T, D) or (N, D); `longest` is the last position
        plus one."""
        if self.longest is not None and longest > self.longest:
            raise DataError(
                f"a row of {longest} tokens is longer than model.max_positions = {self.longest}",
                cure='shorten the text, or train with larger max_positions or with positions = "sinusoid" or "rotary"',
            )
        x = self.positions(vectors, places)
        if torch.is_autocast_enabled(
            x.device.type
        ):  # the residual stream in the type of the products, which halves its memory
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(self._finish(x))  # type: ignore[no-any-return]

    def all(self, vectors: Tensor, lengths: Lengths) -> Tensor:
        """Whole rows: vectors (B, T, E), or packed (N, E)."""
        if isinstance(lengths, Packing):
            return self(vectors, lengths.positions, lengths.longest)  # type: ignore[no-any-return]
        places = torch.arange(vectors.size(1), device=vectors.device)
        return self(vectors, places, vectors.size(1))  # type: ignore[no-any-return]
