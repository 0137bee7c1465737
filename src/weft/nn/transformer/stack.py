"""Blocks on top of each other: what an encoder, a decoder and a language model run on.

B batch, T positions, S of the memory, N packed positions or hypotheses, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear as linear_map

from weft.nn.attention import KeysValues, length_mask
from weft.nn.attention.kv_cache import KVCache
from weft.nn.attention.recording import recording
from weft.nn.packing import Packing
from weft.nn.state import Shared
from weft.nn.transformer import stack_cpu as native
from weft.nn.transformer.block import DecoderBlock, EncoderBlock, remember, scale_residuals
from weft.nn.transformer.norm import EPSILON, LayerNorm

Lengths = Tensor | Packing | None
"""Lengths (B,) of padded rows, how packed rows lie, or nothing where every row is full."""


class EncoderStack(nn.Module):
    """`layers` encoder blocks; `options` are those of the blocks. Pre-norm stacks end with a norm of their own."""

    def __init__(
        self, width: int, *, layers: int, norm: str = "post", norm_epsilon: float = EPSILON, **options: Any
    ) -> None:
        super().__init__()
        options |= {"norm": norm, "norm_epsilon": norm_epsilon}
        self.blocks: Sequence[EncoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(width, **options) for _ in range(layers)
        )
        self.final = _end(self.blocks, width, norm, norm_epsilon)
        self.run: Callable[..., Tensor] = _run

    def forward(self, x: Tensor, lengths: Lengths = None, *, causal: bool = False) -> Tensor:
        """x (B, T, D), or packed (N, D) -> the same. Padding is left as it falls; no real position attends to it."""
        packing, mask = lengths if isinstance(lengths, Packing) else None, None
        if not causal:  # a causal mask hides padding from every real position already
            mask = padding_mask(lengths, x)
        if packing is None and not causal and not self.training and native.serves(self, x):
            return native.run(self, x, mask)
        run = _run if recording() else self.run
        for block in self.blocks:
            x = run(block, x, mask=mask, causal=causal, packing=packing)
        return self.final(x)  # type: ignore[no-any-return]

    def start(self, rows: int, like: Tensor) -> tuple[KeysValues, ...]:
        """The state before the first position, for `rows` hypotheses."""
        return _start(self.blocks, rows, like)

    def reserve(self, rows: int, like: Tensor, *, slot_width: int, capacity: int) -> KVCache:
        """`start` with a KV cache for `capacity` positions, for slots of `slot_width` rows (see weft.nn.slots)."""
        return _reserve(self.blocks, rows, like, slot_width=slot_width, capacity=capacity)

    def step(self, x: Tensor, state: Caches) -> tuple[Tensor, Caches]:
        """The next position, read causally: x (N, D) -> (N, D)."""
        if isinstance(state, KVCache) and native.steps(self, x):
            return native.step(self, x, state, slot_width=1, source=None), state.end()
        after = []
        for number, block in enumerate(self.blocks):
            x, cache = block.step(x, _of_layer(state, number))
            after.append(cache)
        return self.final(x), _after(state, after)

    def prefill(self, x: Tensor, lengths: Tensor, cache: KVCache, *, slots: Tensor, slot_width: int) -> None:
        """Slots (n,) of `slot_width` rows read texts from their beginning on: x (n, T, D), lengths (n,) on the CPU."""
        cache.skip(slots, lengths, slot_width=slot_width)
        if native.steps(self, x):
            native.prefill(self, x, lengths, cache, slots=slots, slot_width=slot_width, source=None)
            return
        for texts, longest in _together(lengths, x):
            here, rows = x[texts, :longest], slots[texts] * slot_width
            for number, block in enumerate(self.blocks[:-1]):
                here = block.prefill(here, cache.layer(number), rows)
            remember(self.blocks[-1], here, cache.layer(len(self.blocks) - 1), rows)

    def compile_blocks(self) -> None:
        """Compile the block once for all layers and all shapes; the first calls then take some seconds."""
        self.run = torch.compile(_run)


Caches = tuple[KeysValues, ...] | KVCache
"""Keys and values of the layers: tensors that grow, or a cache that is written."""


class DecoderState(NamedTuple):
    """Keys and values of the target; and those of the source with its mask (B, 1, S), once per sentence."""

    cache: Caches
    source: Shared


class DecoderStack(nn.Module):
    """`layers` decoder blocks over a memory of `memory_size` features."""

    def __init__(
        self,
        width: int,
        *,
        layers: int,
        memory_size: int,
        norm: str = "post",
        norm_epsilon: float = EPSILON,
        **options: Any,
    ) -> None:
        super().__init__()
        options |= {"norm": norm, "norm_epsilon": norm_epsilon}
        self.blocks: Sequence[DecoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            DecoderBlock(width, memory_size=memory_size, **options) for _ in range(layers)
        )
        self.final = _end(self.blocks, width, norm, norm_epsilon)
        self.run: Callable[..., Tensor] = _run

    def forward(self, x: Tensor, memory: Tensor, memory_lengths: Lengths = None, lengths: Lengths = None) -> Tensor:
        """x (B, T, D), memory (B, S, M) -> (B, T, D); or both packed."""
        packing = lengths if isinstance(lengths, Packing) else None
        behind = memory_lengths if isinstance(memory_lengths, Packing) else None
        mask = padding_mask(memory_lengths, memory)
        run = _run if recording() else self.run
        for block in self.blocks:
            x = run(block, x, memory, mask=mask, packing=packing, memory_packing=behind)
        return self.final(x)  # type: ignore[no-any-return]

    def start(self, memory: Tensor, lengths: Tensor, rows: Tensor) -> DecoderState:
        """The state before the first position; hypothesis n reads sentence rows[n] of memory (B, S, M)."""
        return DecoderState(_start(self.blocks, rows.numel(), memory), Shared(self._source(memory, lengths), rows))

    def reserve(self, memory: Tensor, lengths: Tensor, *, slot_width: int, capacity: int) -> DecoderState:
        """`start` with a KV cache for `capacity` positions: `slot_width` hypotheses per sentence of the memory."""
        rows = torch.arange(memory.size(0), device=memory.device).repeat_interleave(slot_width)
        cache = _reserve(self.blocks, rows.numel(), memory, slot_width=slot_width, capacity=capacity)
        return DecoderState(cache, Shared(self._source(memory, lengths), rows, slot_width))

    def _source(self, memory: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all layers, made in one product (B, L, 2, H, S, m), and where they are real (B, 1, S)."""
        maps = [block.cross.memory for block in self.blocks if block.cross.memory is not None]
        heads, real = self.blocks[0].cross.heads, length_mask(lengths, memory.size(1))[:, None]
        if native.steps(self, memory):
            return native.recall(maps, memory, heads=heads), real
        weight = torch.cat([linear.weight for linear in maps])
        bias = None if maps[0].bias is None else torch.cat([linear.bias for linear in maps])
        joint = linear_map(memory, weight, bias).view(*memory.shape[:2], len(maps), 2, heads, -1)
        return joint.permute(0, 2, 3, 4, 1, 5), real

    def step(
        self, x: Tensor, state: DecoderState, *, attention: bool = True
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        """The next position: x (N, D) -> (N, D), and where the last layer looked (N, S), the mean over its heads."""
        shared = state.source
        if not attention and isinstance(state.cache, KVCache) and native.steps(self, x):
            out = native.step(self, x, state.cache, slot_width=shared.width, source=shared.value)
            return out, DecoderState(state.cache.end(), shared), None
        parts, mask = shared.value if shared.width else shared.expand()
        after, looked = [], None
        for number, block in enumerate(self.blocks):
            asked = attention and number == len(self.blocks) - 1
            cache = _of_layer(state.cache, number)
            source = KeysValues(parts[:, number, 0], parts[:, number, 1])
            x, cache, looked = block.step(x, cache, source, slot_width=shared.width or 1, mask=mask, weights=asked)
            after.append(cache)
        return self.final(x), DecoderState(_after(state.cache, after), shared), looked

    def prefill(self, x: Tensor, lengths: Tensor, state: DecoderState, *, slots: Tensor, slot_width: int) -> None:
        """Slots (n,) of `slot_width` rows read texts from their beginning on: x (n, T, D), lengths (n,) on the CPU."""
        cache, (parts, mask) = state.cache, state.source.value
        assert isinstance(cache, KVCache)
        cache.skip(slots, lengths, slot_width=slot_width)
        if native.steps(self, x):
            native.prefill(self, x, lengths, cache, slots=slots, slot_width=slot_width, source=(parts, mask))
            return
        for texts, longest in _together(lengths, x):
            here, own, rows = x[texts, :longest], slots[texts], slots[texts] * slot_width
            for number, block in enumerate(self.blocks[:-1]):
                source = KeysValues(parts[own, number, 0], parts[own, number, 1])
                here = block.prefill(here, cache.layer(number), rows, source, mask=mask[own])
            remember(self.blocks[-1], here, cache.layer(len(self.blocks) - 1), rows)

    def compile_blocks(self) -> None:
        """Compile the block once for all layers and all shapes; the first calls then take some seconds."""
        self.run = torch.compile(_run)


def _start(blocks: Sequence[EncoderBlock | DecoderBlock], rows: int, like: Tensor) -> tuple[KeysValues, ...]:
    return tuple(block.attention.empty(rows, like) for block in blocks)


def _reserve(
    blocks: Sequence[EncoderBlock | DecoderBlock], rows: int, like: Tensor, *, slot_width: int, capacity: int
) -> KVCache:
    stores = [block.attention.allocate(rows, capacity, like) for block in blocks] if capacity else []
    keys, values = (tuple(store[part] for store in stores) for part in (0, 1))
    return KVCache.make(
        keys, values, rows=torch.arange(rows, device=like.device), capacity=capacity, reorders=slot_width > 1
    )


def _of_layer(state: Caches, number: int) -> Any:
    return state.layer(number) if isinstance(state, KVCache) else state[number]


def _after(state: Caches, cache: list[Any]) -> Any:
    return state.end() if isinstance(state, KVCache) else tuple(cache)


def _together(lengths: Tensor, x: Tensor) -> Iterator[tuple[Tensor | slice, int]]:
    """Texts of lengths (n,) that are read together, and their longest: on a GPU all of x (n, T, D); on a CPU those of
    one length, as torch's numbers there change with the shape of the whole."""
    if x.is_cuda:
        yield slice(None), x.size(1)
        return
    for length in sorted(set(lengths.tolist())):
        yield (lengths == length).nonzero()[:, 0], length


def padding_mask(lengths: Lengths, x: Tensor) -> Tensor | None:
    """(B, 1, T), True at what is real of x (B, T, D); none where nothing is padding."""
    if not isinstance(lengths, Tensor):
        return None
    # On a GPU the comparison would block until it is idle.
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling() and bool((lengths == x.size(1)).all()):
        return None
    return length_mask(lengths, x.size(1))[:, None]


def _run(block: nn.Module, *inputs: Tensor, **options: Any) -> Tensor:
    found: Tensor = block(*inputs, **options)
    return found


def _end(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock], width: int, norm: str, epsilon: float) -> nn.Module:
    """The module that ends a stack. A pre-norm stream grows with every layer, so each starts small (Radford et al.,
    2019)."""
    if norm != "pre":
        return nn.Identity()
    for block in blocks:
        scale_residuals(block, (2 * len(blocks)) ** -0.5)
    return LayerNorm(width, eps=epsilon)
