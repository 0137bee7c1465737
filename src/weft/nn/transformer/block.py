"""One layer of a transformer: attention and a feed-forward net, each joined to the stream by a norm (see norm.py).

encoder block    x -> self-attention -> feed-forward
decoder block    x -> self-attention to the past -> attention to the memory -> feed-forward

With the defaults a block of width 512, 8 heads and 2048 units has 3,150,336 parameters, a decoder block 4,199,936.
B batch, T positions, S of the memory, N packed positions or hypotheses.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from torch import Tensor, nn

from weft.nn.attention import KeysValues, MultiHeadAttention
from weft.nn.attention.kv_cache import LayerCache
from weft.nn.attention.scores import Scale
from weft.nn.packing import Packing
from weft.nn.transformer import torch_weights
from weft.nn.transformer.feedforward import Activation, FeedForward
from weft.nn.transformer.norm import EPSILON, build_norm

Cache = TypeVar("Cache", KeysValues, LayerCache)
"""Keys and values before the next position: tensors that grow, or a cache that is written."""


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward. Causal, it is also the block of a language model; `step` is one position."""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        feedforward: int,
        norm: str = "post",
        norm_epsilon: float = EPSILON,
        activation: Activation = "relu",
        attention_bias: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        attention_scale: Scale | None = None,
        attention_hard: bool = False,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            width,
            heads=heads,
            bias=attention_bias,
            rotary=rotary,
            dropout=attention_dropout,
            scale=attention_scale,
            hard=attention_hard,
        )
        self.feedforward = FeedForward(width, feedforward, activation=activation)
        self.around_attention = build_norm(norm, width, dropout=dropout, epsilon=norm_epsilon)
        self.around_feedforward = build_norm(norm, width, dropout=dropout, epsilon=norm_epsilon)

    @classmethod
    def from_torch(cls, module: nn.TransformerEncoderLayer) -> Self:
        """A block with the weights of torch's layer, in its type and on its device, batch first.

        A layer without biases gets biases of zero, except in its attention.
        """
        return torch_weights.block_from_torch(cls, module, nn.TransformerEncoderLayer)

    def to_torch(self) -> nn.TransformerEncoderLayer:
        """torch's layer, batch first, with these weights; a ConfigError where torch has none."""
        return torch_weights.block_to_torch(self, nn.TransformerEncoderLayer)  # type: ignore[no-any-return]

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, packing: Packing | None = None
    ) -> Tensor:
        """x (B, T, width), or packed (N, width) -> the same; mask broadcastable to (B, T, T)."""
        x = self.around_attention(x, lambda x: self.attention(x, mask=mask, causal=causal, packing=packing))
        return self.around_feedforward(x, self.feedforward)  # type: ignore[no-any-return]

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The next position: x (N, width) and the cache -> (N, width), and the cache with x."""
        x, cache = _attend(self, x, cache)
        return self.around_feedforward(x, self.feedforward), cache

    def prefill(self, x: Tensor, cache: LayerCache, rows: Tensor) -> Tensor:
        """Whole texts: x (n, T, width) -> (n, T, width); keys and values go to the rows (n,) of the cache."""
        x = remember(self, x, cache, rows)
        return self.around_feedforward(x, self.feedforward)  # type: ignore[no-any-return]


class DecoderBlock(nn.Module):
    """Self-attention to the past, attention to a memory of `memory_size` features, feed-forward."""

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        feedforward: int,
        memory_size: int | None = None,
        norm: str = "post",
        norm_epsilon: float = EPSILON,
        activation: Activation = "relu",
        attention_bias: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        attention_scale: Scale | None = None,
        attention_hard: bool = False,
    ) -> None:
        super().__init__()
        shared: dict[str, Any] = {"heads": heads, "bias": attention_bias, "dropout": attention_dropout}
        shared |= {"scale": attention_scale, "hard": attention_hard}
        self.attention = MultiHeadAttention(width, rotary=rotary, **shared)
        self.cross = MultiHeadAttention(width, memory_size or width, **shared)
        self.feedforward = FeedForward(width, feedforward, activation=activation)
        self.around_attention = build_norm(norm, width, dropout=dropout, epsilon=norm_epsilon)
        self.around_cross = build_norm(norm, width, dropout=dropout, epsilon=norm_epsilon)
        self.around_feedforward = build_norm(norm, width, dropout=dropout, epsilon=norm_epsilon)

    @classmethod
    def from_torch(cls, module: nn.TransformerDecoderLayer) -> Self:
        """A block with the weights of torch's layer, in its type and on its device, batch first, read causally.

        A layer without biases gets biases of zero, except in its attention.
        """
        return torch_weights.block_from_torch(cls, module, nn.TransformerDecoderLayer)

    def to_torch(self) -> nn.TransformerDecoderLayer:
        """torch's layer, batch first, with these weights; a ConfigError where torch has none."""
        return torch_weights.block_to_torch(self, nn.TransformerDecoderLayer)  # type: ignore[no-any-return]

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """x (B, T, width), memory (B, S, memory_size), mask to (B, T, S) -> (B, T, width); or everything packed."""
        x = self.around_attention(x, lambda x: self.attention(x, causal=True, packing=packing))
        x = self.around_cross(
            x, lambda x: self.cross(x, memory, mask=mask, packing=packing, key_packing=memory_packing)
        )
        return self.around_feedforward(x, self.feedforward)  # type: ignore[no-any-return]

    def step(
        self,
        x: Tensor,
        cache: Cache,
        source: KeysValues,
        *,
        slot_width: int,
        mask: Tensor | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, Cache, Tensor | None]:
        """The next position: x (N, width) -> (N, width), the cache with it, and weights over the source (N, S).

        `slot_width` rows, one after the other, look at one sentence of the source.
        """
        used: Tensor | None = None

        def look(x: Tensor) -> Tensor:
            nonlocal used
            out, heads = self.cross.look(x.view(-1, slot_width, x.size(-1)), source, mask=mask, weights=weights)
            used = None if heads is None else heads.mean(1).flatten(0, 1)
            return out.flatten(0, 1)

        x, cache = _attend(self, x, cache)
        x = self.around_cross(x, look)
        return self.around_feedforward(x, self.feedforward), cache, used

    def prefill(
        self, x: Tensor, cache: LayerCache, rows: Tensor, source: KeysValues, *, mask: Tensor | None = None
    ) -> Tensor:
        """Whole texts, each with its source: x (n, T, width) -> (n, T, width); keys and values go to the rows (n,) of
        the cache."""
        x = remember(self, x, cache, rows)
        x = self.around_cross(x, lambda x: self.cross.look_at_once(x, source, mask=mask))
        return self.around_feedforward(x, self.feedforward)  # type: ignore[no-any-return]


def _attend(block: EncoderBlock | DecoderBlock, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """Self-attention of the next position, x (N, width) -> (N, width), and the cache with it."""
    after = cache

    def attend(x: Tensor) -> Tensor:
        nonlocal after
        if isinstance(cache, LayerCache):
            return block.attention.step_within(x, cache)
        out, after = block.attention.step(x, cache)
        return out

    return block.around_attention(x, attend), after


def remember(block: EncoderBlock | DecoderBlock, x: Tensor, cache: LayerCache, rows: Tensor) -> Tensor:
    """Self-attention of whole texts, x (n, T, width) -> the same: the part of `prefill` that fills the cache."""
    found: Tensor = block.around_attention(x, lambda x: block.attention.prefill_within(x, cache, rows))
    return found


def scale_residuals(block: EncoderBlock | DecoderBlock, share: float) -> None:
    """Shrink what the parts of a new block add to the stream, so that many blocks add no more than one would."""
    outputs = [block.attention.output, block.feedforward.outer]
    outputs += [block.cross.output] if isinstance(block, DecoderBlock) else []
    for linear in outputs:
        linear.weight.detach().mul_(share)
