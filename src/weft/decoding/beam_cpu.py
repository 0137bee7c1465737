"""Beam search on a CPU in C: a step from hidden states to the next beam (beam.c) or, with a transformer, whole steps
until a sentence ends (beam_steps.c). The plain versions are beam.py and Slots.step."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.request import Request
from weft.decoding.rows import FixedRows, SearchRows
from weft.models.embedding import Output
from weft.models.stepper import Writer
from weft.nn.native import decode as native
from weft.nn.native.stack import Reader
from weft.text import EOS

FIELDS: Final = (
    "live", "step", "first", "limit", "prefix", "tokens", "sums", "best", "best_log", "best_step", "best_place",
    "ended", "backpointers", "logs",
)  # fmt: skip
"""The fields of a `BeamState` that the C reads and writes, in its order."""

MAX_WIDTH: Final = 64
"""Hypotheses of a slot beyond which torch is faster: the C keeps that many sorted for each part of the vocabulary."""


def serves(rows: SearchRows, beams: BeamState, request: Request) -> bool:
    """Whether the C can run this search: beam search with a network, in single precision, with packed weights."""
    if request.config.sample or request.width > MAX_WIDTH or not request.independent:
        return False
    if native.packed_weights() is None:
        return False
    if not isinstance(rows, FixedRows) or not isinstance(rows.model, Writer):
        return False
    return native.serves(beams.sums, rows.model.output.scores.weight)


def reader_of(rows: FixedRows, beams: BeamState) -> Reader | None:
    """The model's side of whole steps, where the C has its decoder."""
    assert isinstance(rows.model, Writer)
    if rows.attention or rows.model.output.narrow is not None:
        return None
    return rows.model.decoder.native_reader(rows.state, width=beams.shape.width)


class CpuBeam:
    """The buffers and weights that the C needs beside the beams; with a reader it runs whole steps."""

    def __init__(self, beams: BeamState, request: Request, output: Output, reader: Reader | None = None) -> None:
        weights, config, shape = native.packed_weights(), request.config, beams.shape
        assert weights is not None
        self.output, self.reader, scores = output, reader, output.scores
        fields = [getattr(beams, name) for name in FIELDS]
        assert all(tensor.is_contiguous() for tensor in fields)
        rows, packed, parts = beams.tokens.numel(), weights.packed(scores), native.parts(scores.out_features)
        forbidden = torch.tensor(sorted(set(request.forbidden_ids)), dtype=torch.long)
        part_starts = torch.searchsorted(forbidden, torch.arange(parts + 1) * native.part_size())
        # For each row its bound and the score of the end token; for each part the maximum and the sum, then the best
        # scores and their tokens.
        buffers = [torch.empty(rows), torch.empty(rows), torch.empty(parts, rows), torch.empty(parts, rows)]
        buffers += [torch.empty(parts, rows, shape.width), torch.empty(parts, rows, shape.width, dtype=torch.long)]
        self.rows = torch.empty(rows, dtype=torch.long)
        self.made = native.make(
            "beam", native.table(fields), packed.weight, packed.bias, forbidden, part_starts, *buffers,
            torch.empty_like(self.rows), self.rows, shape.slots, shape.width, scores.in_features, scores.out_features,
            EOS, config.min_length, shape.n_best, beams.prefix.size(1), beams.backpointers.size(1),
            int(request.by_bound), config.length_penalty,
        )  # fmt: skip

    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (A·K, D) -> the row (A·K,) that each row continues. The beams are advanced by one step."""
        native.call("beam_step", self.made, self.output.narrowed(hidden).contiguous())
        return self.rows

    def steps(self, max_steps: int) -> int:
        """Run steps until a sentence ends, at most `max_steps` -> how many."""
        assert self.reader is not None
        hidden = torch.empty(self.rows.numel(), self.reader.table.size(1))
        return native.ask("beam_steps", self.reader.stack, self.made, *self.reader[1:], hidden, max_steps)
