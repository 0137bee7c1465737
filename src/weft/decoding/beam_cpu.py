"""Beam search on a CPU in C: a step from hidden states to the next beam (beam.c) or, with a transformer, whole steps
until a sentence ends (beam_steps.c). The plain versions are beam.py and Slots.step."""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.request import Request
from weft.decoding.rows import FixedRows, SearchRows
from weft.models.embedding import Output
from weft.models.stepper import Writer
from weft.nn.native.library import CFile, Library
from weft.nn.native.packed_linear import PackedLinear, packed_weights
from weft.nn.native.struct import Bytes, ConstLongs, Floats, Longs, NativeStruct
from weft.nn.transformer.stack_cpu import SOURCES, TokenInput, TokenStack
from weft.text import EOS

MAX_WIDTH: Final = 64
"""Hypotheses of a slot beyond which torch is faster: the C keeps that many sorted for each part of the vocabulary."""


class NativeBeamState(NativeStruct):
    """The tensors of a `BeamState` that the C reads and writes, under the same names."""

    c_name: ClassVar[str] = "beam_state_t"
    _fields_ = (
        ("live", Bytes), ("step", Longs), ("first", Longs), ("limit", Longs), ("prefix", Longs), ("tokens", Longs),
        ("sums", Floats), ("best", Floats), ("best_log", Floats), ("best_step", Longs), ("best_place", Longs),
        ("ended", Longs), ("backpointers", Longs), ("logs", Floats),
    )  # fmt: skip


class NativeBeam(NativeStruct):
    """A search for all its steps: A slots of K rows (N in all), the vocabulary in P parts.

    output: scores of tokens from hidden states; forbidden: tokens in ascending order, of which those of part p begin
    at part_starts[p]; row: the rows to be scored; parent: the row that each row continues after a step. Buffers: bound
    (N), below which no score is among a row's best; end (N), the score of the end token; highest and total (P, N) and
    top and ids (P, N, K), the maximum, the sum and the best of a part, which threads write at the same time.
    """

    c_name: ClassVar[str] = "beam_t"
    _fields_ = (
        ("state", NativeBeamState), ("output", PackedLinear), ("forbidden", ConstLongs), ("part_starts", ConstLongs),
        ("bound", Floats), ("end", Floats), ("highest", Floats), ("total", Floats), ("top", Floats), ("ids", Longs),
        ("row", Longs), ("parent", Longs), ("slots", ctypes.c_long), ("width", ctypes.c_long),
        ("parts", ctypes.c_long), ("eos", ctypes.c_long), ("min_length", ctypes.c_long), ("n_best", ctypes.c_long),
        ("prefix_size", ctypes.c_long), ("steps", ctypes.c_long), ("penalty", ctypes.c_float),
        ("by_bound", ctypes.c_int), ("finished", ctypes.c_long),
    )  # fmt: skip


LIBRARY: Final = Library(
    *SOURCES,
    CFile("weft.decoding", "beam.c", (NativeBeamState, NativeBeam)),
    CFile("weft.decoding", "beam_steps.c"),
)


def serves(rows: SearchRows, beams: BeamState, request: Request) -> bool:
    """Whether the C can run this search: beam search with a network, in single precision, with packed weights."""
    if request.config.sample or request.width > MAX_WIDTH or not request.independent or packed_weights() is None:
        return False
    if not isinstance(rows, FixedRows) or not isinstance(rows.model, Writer):
        return False
    return LIBRARY.serves(beams.sums, rows.model.output.scores.weight)


def reader_of(rows: FixedRows, beams: BeamState) -> TokenStack | None:
    """The model's side of whole steps, where the C has its decoder."""
    assert isinstance(rows.model, Writer)
    if rows.attention or rows.model.output.narrow is not None:
        return None
    return rows.model.decoder.native_reader(rows.state, width=beams.shape.width)


class CpuBeam:
    """The buffers and weights that the C needs beside the beams; with a reader it runs whole steps."""

    def __init__(self, beams: BeamState, request: Request, output: Output, reader: TokenStack | None = None) -> None:
        weights, shape, vocabulary = packed_weights(), beams.shape, output.scores.out_features
        assert weights is not None
        self.output, self.reader, self.tokens = output, reader, beams.tokens
        state = {name: getattr(beams, name) for name, _ in NativeBeamState._fields_}
        assert all(tensor.is_contiguous() for tensor in state.values())
        rows, part_tokens = beams.tokens.numel(), LIBRARY.number("part_tokens")
        parts = -(-vocabulary // part_tokens)
        forbidden = torch.tensor(sorted(set(request.forbidden_ids)), dtype=torch.long)
        self.rows = torch.empty(rows, dtype=torch.long)
        self.native = NativeBeam(
            state=NativeBeamState(**state),
            output=weights.packed(output.scores).struct,
            forbidden=forbidden,
            part_starts=torch.searchsorted(forbidden, torch.arange(parts + 1) * part_tokens),
            bound=torch.empty(rows),
            end=torch.empty(rows),
            highest=torch.empty(parts, rows),
            total=torch.empty(parts, rows),
            top=torch.empty(parts, rows, shape.width),
            ids=torch.empty(parts, rows, shape.width, dtype=torch.long),
            row=torch.empty_like(self.rows),
            parent=self.rows,
            slots=shape.slots,
            width=shape.width,
            parts=parts,
            eos=EOS,
            min_length=request.config.min_length,
            n_best=shape.n_best,
            prefix_size=beams.prefix.size(1),
            steps=beams.backpointers.size(1),
            penalty=request.config.length_penalty,
            by_bound=int(request.by_bound),
            finished=request.finished,
        )

    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (A·K, D) -> the row (A·K,) that each row continues. The beams are advanced by one step."""
        LIBRARY.call("beam_step", self.native, self.output.narrowed(hidden).contiguous())
        return self.rows

    def steps(self, max_steps: int) -> int:
        """Run steps until a sentence ends, at most `max_steps` -> how many."""
        assert self.reader is not None
        stack, table, positions, scale = self.reader
        tokens = TokenInput(table=table, positions=positions, tokens=self.tokens, scale=scale)
        hidden = torch.empty(self.rows.numel(), table.size(1))
        steps = LIBRARY.shared_number("beam_steps", stack, self.native, tokens, hidden, max_steps)
        if steps < 0:
            raise MemoryError("beam_steps found no memory for its buffers: use a smaller batch or shorter texts")
        return steps
