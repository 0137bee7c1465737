"""Scheduled sampling on a GPU: the steps of a decoder, some at a time, as CUDA graphs.

A step launches dozens of small kernels, and Python takes longer to launch them than the GPU to run them. Here a graph
holds a chunk of 1, 2, 4, ... steps; any number of steps is a few of them, largest first. Graphs read and write buffers
that stay where they are; batch and source are rounded up, so that few buffers serve all batches. Weights are read where
they stand, and where autocast casts them a chunk casts them anew.

On a CPU the same code runs without graphs, for tests.          B batch, T target length, R rows of the buffers ≥ B
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch import Tensor, nn

from weft.models.embedding import Output
from weft.models.forcing_steps import Buffers, Unrecordable, Writer
from weft.models.memory import Decoder, Memory
from weft.nn import State
from weft.nn.attention.recording import recording
from weft.nn.cuda_graph import GraphCache, addresses, generator_kept
from weft.nn.fingerprint import fingerprint, is_hooked
from weft.nn.kernels import power_of_two
from weft.nn.recurrent.layer import Layer

MAX_CHUNK_STEPS: Final = 16
"""Steps of the longest chunk: among so many, the time to launch a graph and to cast weights hardly counts."""

MAX_CACHED_RECORDINGS: Final = 32
"""Sets of buffers and graphs kept with one decoder."""

LEAST_CAPACITY: Final = 64
"""The least number of positions of the buffers."""

_plainly: ContextVar[bool] = ContextVar("steps run in a Python loop", default=False)


class Recording:
    """Buffers, and the graphs of chunks that run on them, one after the other, on one stream."""

    def __init__(self, writer: Writer, memory: Any, rows: Tensor, *, capacity: int, family: Family) -> None:
        self.family, self.device = family, rows.device
        self.graphs: dict[tuple[int, bool], torch.cuda.CUDAGraph] = {}
        self.pool: Any = None
        with torch.inference_mode(False), torch.no_grad(), torch.random.fork_rng(_gpu(self.device)):
            self.buffers = Buffers(writer, memory, rows, capacity=capacity)
            with family.apart(self.device):
                self.buffers.try_steps(writer)

    def mix(self, writer: Writer, tokens: Tensor, kept: Tensor, state: State) -> Tensor:
        """tokens (B, T), kept (B, T), the first state of the rows -> the mixture (B, T)."""
        self.buffers.load(tokens, kept, state)
        done, steps = 0, tokens.size(1) - 1
        while done < steps:
            count = min(MAX_CHUNK_STEPS, 1 << ((steps - done).bit_length() - 1))
            self._chunk(writer, count, first=done == 0 and self.buffers.first is not self.buffers.state)
            done += count
        return self.buffers.mixture(tokens)

    def _chunk(self, writer: Writer, count: int, *, first: bool) -> None:
        if self.device.type != "cuda":
            self.buffers.advance(writer, count, first=first)
            return
        if (count, first) not in self.graphs:
            self.graphs[count, first] = self._capture(writer, count, first=first)
        self.graphs[count, first].replay()

    def _capture(self, writer: Writer, count: int, *, first: bool) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self.pool = self.pool or self.family.pool()
        try:
            with (
                torch.random.fork_rng([self.device]),
                generator_kept(self.device),
                self.family.apart(self.device),
            ):
                graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
                try:
                    self.buffers.advance(writer, count, first=first)
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            # Ending a broken capture raises an error of its own, which hides the one that broke it.
            cause = error if isinstance(error, torch.OutOfMemoryError) else error.__context__ or error
            if isinstance(cause, torch.OutOfMemoryError):
                raise cause from None
            lines = str(cause).strip().splitlines() or [type(cause).__name__]
            raise Unrecordable(f"its step cannot be captured: {lines[0]}") from cause
        return graph


class Family:
    """The recordings of one decoder that run on one stream: they share a memory pool, and a stream to be captured on.

    It must not keep the decoder alive.
    """

    def __init__(self) -> None:
        self.members: weakref.WeakSet[Recording] = weakref.WeakSet()
        self.stream: torch.cuda.Stream | None = None

    def pool(self) -> Any:
        """The pool of the members that have graphs, or a new one: torch does not accept one again that was emptied."""
        pools = [member.pool for member in self.members if member.graphs]
        return pools[0] if pools else torch.cuda.graph_pool_handle()

    @contextmanager
    def apart(self, device: torch.device) -> Iterator[None]:
        """Run the block on the stream for captures, with nothing cast before it and nothing kept that was cast in it:
        what autocast casts in a graph is written again by every replay, and read by no one else."""
        torch.clear_autocast_cache()
        try:
            if device.type != "cuda":
                yield
                return
            current = torch.cuda.current_stream(device)
            if self.stream is None:
                self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                yield
            current.wait_stream(self.stream)
        finally:
            torch.clear_autocast_cache()


class Recordings:
    """All recordings of one decoder, and why it has none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # a second thread must not load buffers before this one's graphs are queued
        self.cache: GraphCache[Recording] = GraphCache(MAX_CACHED_RECORDINGS)
        self.families: dict[object, Family] = {}
        self.refusal = ""

    def mix(self, writer: Writer, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
        """The mixture, or an Unrecordable."""
        with self.lock:
            if self.refusal:
                raise Unrecordable(self.refusal)
            try:
                return self._mix(writer, tokens, memory, kept)
            except Unrecordable as refusal:
                self.refusal = str(refusal)
                self._clear()
                raise
            except torch.OutOfMemoryError:
                self._clear()
                raise

    def release(self) -> None:
        """Free all memory of recordings."""
        with self.lock:
            self._clear()

    def _mix(self, writer: Writer, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
        (batch, length), device = tokens.shape, tokens.device
        rows, capacity = rounded(batch, least=8), power_of_two(length, least=LEAST_CAPACITY)
        if isinstance(memory, Memory) and isinstance(memory.lengths, Tensor):
            memory = memory._replace(lengths=memory.lengths.to(device))
        state = writer.decoder.reserve(memory, torch.arange(batch, device=device), width=1, capacity=0)
        source = rounded(memory.states.size(1), least=16) if isinstance(memory, Memory) else 0
        layout = [(part.dtype, part.dim() if source else part.shape[1:]) for part in _tensors(state)]
        stream = device, torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        parts = [(fingerprint(part), addresses(part)) for part in writer]
        key = (*parts, _precision(device), rows, capacity, source, *layout, stream)
        found = self.cache.get(key)
        if found is None:
            self.cache.make_space()
            padded = memory.padded(source) if isinstance(memory, Memory) else memory
            any_row = torch.arange(rows, device=device).clamp(max=batch - 1)
            family = self.families.setdefault(stream, Family())
            found = Recording(writer, padded, any_row, capacity=capacity, family=family)
            family.members.add(found)
            self.cache.put(key, found)
        return found.mix(writer, tokens, kept, state)

    def _clear(self) -> None:
        self.cache.clear()
        self.families.clear()


_recordings: weakref.WeakKeyDictionary[nn.Module, Recordings] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def mix_recorded(decoder: Decoder, output: Output, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
    """tokens (B, T), kept (B, T) -> the mixture; raises an Unrecordable where steps cannot be recorded."""
    with _lock:
        recordings = _recordings.setdefault(decoder, Recordings())
    return recordings.mix(Writer(decoder, output), tokens, memory, kept)


def release() -> None:
    """Free the memory of all recordings."""
    with _lock:
        every = list(_recordings.values())
    for recordings in every:
        recordings.release()


def runs_plainly(decoder: Decoder, output: Output, tokens: Tensor) -> bool:
    """Whether steps run in a Python loop without a reason to report: not on a GPU, as asked, or because every step is
    seen by somebody or is part of a larger recording."""
    if tokens.device.type != "cuda" or _plainly.get() or tokens.size(0) == 0 or tokens.size(1) < 2:
        return True
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return True
    observed = any(part.observers for part in decoder.modules() if isinstance(part, Layer))
    return recording() or observed or is_hooked(decoder) or is_hooked(output)


@contextmanager
def python_loop() -> Iterator[None]:
    """Run the steps of scheduled sampling in a Python loop in the block, on a GPU too."""
    token = _plainly.set(True)
    try:
        yield
    finally:
        _plainly.reset(token)


def refusal(decoder: Decoder) -> str:
    """Why the steps of a decoder were not recorded when that was tried; empty where they were, or were not tried."""
    found = _recordings.get(decoder)
    return "" if found is None else found.refusal


def rounded(size: int, *, least: int) -> int:
    """The next multiple of `least`, or of more where sizes are large: batches of nearly the same size share buffers."""
    unit = max(least, power_of_two(size) // 8)
    return -(-size // unit) * unit


def _tensors(state: State) -> list[Tensor]:
    """All tensors of a state, with what rows share."""
    if isinstance(state, Tensor):
        return [state]
    return [tensor for part in state for tensor in _tensors(part)] if isinstance(state, tuple) else []


def _precision(device: torch.device) -> tuple[object, ...]:
    """What decides the types and the precision of products."""
    autocast = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    return autocast, torch.backends.cuda.matmul.fp32_precision


def _gpu(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
