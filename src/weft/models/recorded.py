"""An encoder on a GPU, recorded as a CUDA graph for shapes that come again: launching it costs more than running it.

Shapes are rounded up so that they are few. A shape is recorded when it comes for the second time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.models.memory import Memory
from weft.nn import map_state
from weft.nn.cuda_graph import addresses, record
from weft.nn.kernels import power_of_two
from weft.text import PAD

KEPT: Final = 16
"""Recordings of an encoder; the one that was not used for longest goes first."""

Encode = Callable[[Tensor, Tensor], Memory]


class Recording(NamedTuple):
    """A graph that reads tokens (B, S) and lengths (B,), and writes the memory."""

    graph: Any
    tokens: Tensor
    lengths: Tensor
    memory: Memory

    def replay(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """The memory of rows that may be fewer and shorter than those of the recording."""
        rows, size = tokens.shape
        self.tokens.fill_(PAD)
        self.tokens[:rows, :size] = tokens
        self.lengths.fill_(1)
        self.lengths[:rows] = lengths
        self.graph.replay()
        states = self.memory.states[:rows, :size].clone()
        return Memory(states, lengths, map_state(lambda tensor: tensor[:rows].clone(), self.memory.final))


class Recordings:
    """Those of one encoder."""

    def __init__(self) -> None:
        self.made: OrderedDict[Any, Recording | None] = OrderedDict()
        self.pool = torch.cuda.graph_pool_handle()  # of all of them: they run one after the other

    def encode(self, encode: Encode, tokens: Tensor, lengths: Tensor, weights: int) -> Memory:
        rows, size = _up(tokens.size(0)), -(-tokens.size(1) // 16) * 16
        key = (rows, size, weights)
        if key not in self.made:
            self._remember(key, None)
            return encode(tokens, lengths)
        recording = self.made[key]
        if recording is None:
            recording = self._record(encode, tokens, lengths, rows, size)
        self._remember(key, recording)
        return recording.replay(tokens, lengths)

    def _remember(self, key: Any, recording: Recording | None) -> None:
        self.made[key] = recording
        self.made.move_to_end(key)
        while len(self.made) > KEPT:
            self.made.popitem(last=False)

    def _record(self, encode: Encode, tokens: Tensor, lengths: Tensor, rows: int, size: int) -> Recording:
        more = rows - tokens.size(0)
        tokens = pad(tokens, (0, size - tokens.size(1), 0, more), value=PAD)
        lengths = pad(lengths, (0, more), value=1)
        graph, memory = record(lambda: encode(tokens, lengths), pool=self.pool)
        return Recording(graph, tokens, lengths, memory)


_recordings: WeakKeyDictionary[nn.Module, Recordings] = WeakKeyDictionary()
_lock = threading.Lock()


def can_record(encoder: nn.Module, tokens: Tensor) -> bool:
    """Whether the encoder reads padded rows on a GPU, and learns nothing from it."""
    if not tokens.is_cuda:
        return False
    idle = not torch.is_grad_enabled() and not encoder.training and not torch.is_autocast_enabled("cuda")
    free = not torch.compiler.is_compiling() and not torch.cuda.is_current_stream_capturing()
    return tokens.numel() > 0 and idle and free


def encode_recorded(encoder: nn.Module, encode: Encode, tokens: Tensor, lengths: Tensor) -> Memory:
    """What encode(tokens, lengths) gives, from a recording where there is one."""
    with _lock:
        return _recordings.setdefault(encoder, Recordings()).encode(encode, tokens, lengths, addresses(encoder))


def _up(rows: int) -> int:
    """The next power of two, or beyond 16 the next multiple of 16."""
    return power_of_two(rows) if rows <= 16 else -(-rows // 16) * 16
