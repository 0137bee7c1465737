"""Blocks on top of each other: what an encoder, a decoder and a language model run on.

B batch, T positions, S of the memory, N packed positions or hypotheses, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.nn.attention import KeysValues, length_mask
from weft.nn.packing import Packing
from weft.nn.state import Shared
from weft.nn.transformer.block import DecoderBlock, EncoderBlock, scale_residuals
from weft.nn.transformer.norm import LayerNorm

Lengths = Tensor | Packing | None
"""Lengths (B,) of padded rows, how packed rows lie, or nothing where every row is full."""


class EncoderStack(nn.Module):
    """`layers` encoder blocks; `options` are those of the blocks. Pre-norm stacks end with a norm of their own."""

    def __init__(self, width: int, *, layers: int, norm: str = "post", **options: Any) -> None:
        super().__init__()
        self.blocks: Sequence[EncoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(width, norm=norm, **options) for _ in range(layers)
        )
        self.final = _end(self.blocks, width, norm)
        self.run: Callable[..., Tensor] = _run

    def forward(self, x: Tensor, lengths: Lengths = None, *, causal: bool = False) -> Tensor:
        """x (B, T, D), or packed (N, D) -> the same. Padding is left as it falls; no real position has seen it."""
        packing, mask = lengths if isinstance(lengths, Packing) else None, None
        if not causal:  # what comes after a real position needs no hiding from it otherwise
            mask = padding_mask(lengths, x)
        for block in self.blocks:
            x = self.run(block, x, mask=mask, causal=causal, packing=packing)
        return self.final(x)  # type: ignore[no-any-return]

    def start(self, rows: int, like: Tensor) -> tuple[KeysValues, ...]:
        """The state before the first position, for so many hypotheses."""
        return tuple(block.attention.empty(rows, like) for block in self.blocks)

    def step(self, x: Tensor, state: tuple[KeysValues, ...]) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """The next position, read causally: x (N, D) -> (N, D)."""
        after = []
        for block, seen in zip(self.blocks, state, strict=True):
            x, seen = block.step(x, seen)
            after.append(seen)
        return self.final(x), tuple(after)

    def compile_blocks(self) -> None:
        """Compile the block once for all layers and all shapes; the first calls then take some seconds."""
        self.run = torch.compile(_run)


class DecoderState(NamedTuple):
    """What each layer has seen of the target; and of the source, with where it is real (B, 1, S), once per sentence."""

    seen: tuple[KeysValues, ...]
    source: Shared


class DecoderStack(nn.Module):
    """`layers` decoder blocks over a memory of `memory_size` features."""

    def __init__(self, width: int, *, layers: int, memory_size: int, norm: str = "post", **options: Any) -> None:
        super().__init__()
        self.blocks: Sequence[DecoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            DecoderBlock(width, memory_size=memory_size, norm=norm, **options) for _ in range(layers)
        )
        self.final = _end(self.blocks, width, norm)
        self.run: Callable[..., Tensor] = _run

    def forward(self, x: Tensor, memory: Tensor, memory_lengths: Lengths = None, lengths: Lengths = None) -> Tensor:
        """x (B, T, D), memory (B, S, M) -> (B, T, D); or both packed."""
        packing = lengths if isinstance(lengths, Packing) else None
        behind = memory_lengths if isinstance(memory_lengths, Packing) else None
        mask = padding_mask(memory_lengths, memory)
        for block in self.blocks:
            x = self.run(block, x, memory, mask=mask, packing=packing, memory_packing=behind)
        return self.final(x)  # type: ignore[no-any-return]

    def start(self, memory: Tensor, lengths: Tensor, rows: Tensor) -> DecoderState:
        """The state before the first position; hypothesis n reads sentence rows[n] of memory (B, S, M)."""
        real = length_mask(lengths, memory.size(1))[:, None]
        sources = tuple(block.cross.remember(memory) for block in self.blocks)
        seen = tuple(block.attention.empty(rows.numel(), memory) for block in self.blocks)
        return DecoderState(seen, Shared((sources, real), rows))

    def step(self, x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState, Tensor | None]:
        """The next position: x (N, D) -> (N, D), and where the last layer looked (N, S), the mean over its heads."""
        sources, mask = state.source.expand()
        after, attention = [], None
        for number, block in enumerate(self.blocks, 1):
            last = number == len(self.blocks)
            x, seen, attention = block.step(x, state.seen[number - 1], sources[number - 1], mask=mask, weights=last)
            after.append(seen)
        return self.final(x), DecoderState(tuple(after), state.source), attention

    def compile_blocks(self) -> None:
        """Compile the block once for all layers and all shapes; the first calls then take some seconds."""
        self.run = torch.compile(_run)


def padding_mask(lengths: Lengths, x: Tensor) -> Tensor | None:
    """(B, 1, T), True at what is real of x (B, T, D); none where nothing is padding."""
    if not isinstance(lengths, Tensor):
        return None
    # On a GPU to ask would be to wait for it.
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling() and bool((lengths == x.size(1)).all()):
        return None
    return length_mask(lengths, x.size(1))[:, None]


def _run(block: nn.Module, *inputs: Tensor, **options: Any) -> Tensor:
    found: Tensor = block(*inputs, **options)
    return found


def _end(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock], width: int, norm: str) -> nn.Module:
    """What ends a stack. A pre-norm stream grows with every layer, so that each starts small (Radford et al., 2019)."""
    if norm != "pre":
        return nn.Identity()
    for block in blocks:
        scale_residuals(block, (2 * len(blocks)) ** -0.5)
    return LayerNorm(width)
