"""An encoder on a GPU as a CUDA graph: for short sentences, launching its kernels takes longer than running them.

Shapes are rounded up so that few graphs serve all batches. A shape is recorded when it comes for the second time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.models.memory import Memory
from weft.nn import map_state
from weft.nn.attention.recording import recording
from weft.nn.cuda_graph import GraphCache, addresses, record
from weft.nn.kernels import power_of_two
from weft.text import PAD

MAX_CACHED_GRAPHS: Final = 16
"""Graphs kept with one encoder."""

Encode = Callable[[Tensor, Tensor], Memory]


class EncoderGraph(NamedTuple):
    """A graph that reads tokens (B, S) and lengths (B,), and writes the memory."""

    graph: Any
    tokens: Tensor
    lengths: Tensor
    memory: Memory

    def replay(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """The memory of rows that may be fewer and shorter than the recorded ones."""
        rows, size = tokens.shape
        self.tokens.fill_(PAD)
        self.tokens[:rows, :size] = tokens
        self.lengths.fill_(1)
        self.lengths[:rows] = lengths
        self.graph.replay()
        states = self.memory.states[:rows, :size].clone()
        return Memory(states, lengths, map_state(lambda tensor: tensor[:rows].clone(), self.memory.final))


class EncoderGraphs:
    """The graphs of one encoder. A shape that has come once is stored as None."""

    def __init__(self) -> None:
        self.cache: GraphCache[EncoderGraph | None] = GraphCache(MAX_CACHED_GRAPHS)
        self.pool = torch.cuda.graph_pool_handle()  # one for all graphs: they run one after the other

    def encode(self, encode: Encode, tokens: Tensor, lengths: Tensor, weights: int) -> Memory:
        """encode(tokens, lengths), by a graph where there is one; `weights` are the addresses of the parameters."""
        rows, size = _rounded(tokens.size(0)), -(-tokens.size(1) // 16) * 16
        key = (rows, size, weights)
        if key not in self.cache:
            self.cache.put(key, None)
            return encode(tokens, lengths)
        graph = self.cache.get(key) or self._record(encode, tokens, lengths, rows, size)
        self.cache.put(key, graph)
        return graph.replay(tokens, lengths)

    def _record(self, encode: Encode, tokens: Tensor, lengths: Tensor, rows: int, size: int) -> EncoderGraph:
        more = rows - tokens.size(0)
        tokens = pad(tokens, (0, size - tokens.size(1), 0, more), value=PAD)
        lengths = pad(lengths, (0, more), value=1)
        graph, memory = record(lambda: encode(tokens, lengths), pool=self.pool)
        return EncoderGraph(graph, tokens, lengths, memory)


_graphs: WeakKeyDictionary[nn.Module, EncoderGraphs] = WeakKeyDictionary()
_lock = threading.Lock()


def can_record(encoder: nn.Module, tokens: Tensor) -> bool:
    """Whether these padded rows lie on a GPU and the encoder runs without gradients, outside of other recordings."""
    if not tokens.is_cuda or tokens.dim() != 2 or recording():  # feature vectors have three dimensions
        return False
    idle = not torch.is_grad_enabled() and not encoder.training and not torch.is_autocast_enabled("cuda")
    free = not torch.compiler.is_compiling() and not torch.cuda.is_current_stream_capturing()
    return tokens.numel() > 0 and idle and free


def encode_recorded(encoder: nn.Module, encode: Encode, tokens: Tensor, lengths: Tensor) -> Memory:
    """encode(tokens, lengths), from a recording where there is one."""
    with _lock:
        return _graphs.setdefault(encoder, EncoderGraphs()).encode(encode, tokens, lengths, addresses(encoder))


def _rounded(rows: int) -> int:
    """The next power of two, or beyond 16 the next multiple of 16."""
    return power_of_two(rows) if rows <= 16 else -(-rows // 16) * 16
