"""Steps of beam search on a CPU in C: from hidden states to the next beam (beam.c), and for a transformer whole steps,
until a sentence ends (steps.c). The twins are beam.py and Slots.turn."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.request import Request
from weft.decoding.rows import FixedRows, Rows
from weft.models.embedding import Output
from weft.models.stepper import Writer
from weft.nn.native import decode as native
from weft.nn.native.stack import Reader
from weft.text import EOS

HELD: Final = (
    "live", "step", "first", "limit", "prefix", "tokens", "sums", "best", "best_log", "best_step", "best_place",
    "ended", "backpointers", "logs",
)  # fmt: skip
"""What the C reads and writes of a beams, in its order."""


WIDEST: Final = 64
"""Hypotheses of a sentence beyond which torch is quicker: the C keeps so many of each part of the vocabulary sorted."""


def serves(rows: Rows, beams: BeamState, request: Request) -> bool:
    """Whether the C is made for it: plain beam search with a network, in single precision, in a steady time."""
    if request.config.sample or request.width > WIDEST or not request.single or native.packed_weights() is None:
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
    """What the C needs beside the beams, for a model with that output, in a steady time; with a reader, whole steps."""

    def __init__(self, beams: BeamState, request: Request, output: Output, reader: Reader | None = None) -> None:
        steady, config, shape = native.packed_weights(), request.config, beams.shape
        assert steady is not None
        self.output, self.reader, scores = output, reader, output.scores
        held = [getattr(beams, name) for name in HELD]
        assert all(tensor.is_contiguous() for tensor in held)
        rows, packed, parts = beams.tokens.numel(), steady.packed(scores), native.parts(scores.out_features)
        never = torch.tensor(sorted(set(request.never)), dtype=torch.long)
        nevers = torch.searchsorted(never, torch.arange(parts + 1) * native.part_size())
        # Bounds and scores of the end; of each part its maximum and its sum; its best, and their tokens.
        room = [torch.empty(rows), torch.empty(rows), torch.empty(parts, rows), torch.empty(parts, rows)]
        room += [torch.empty(parts, rows, shape.width), torch.empty(parts, rows, shape.width, dtype=torch.long)]
        self.rows = torch.empty(rows, dtype=torch.long)
        self.made = native.make(
            "beam", native.table(held), packed.weight, packed.bias, never, nevers, *room,
            torch.empty_like(self.rows), self.rows, shape.slots, shape.width, scores.in_features, scores.out_features,
            EOS, config.min_length, shape.n_best, beams.prefix.size(1), beams.backpointers.size(1),
            int(request.by_bound), config.length_penalty,
        )  # fmt: skip

    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (A·K, D) -> the row (A·K,) that each row continues now. The beams is one step further."""
        native.call("beam_step", self.made, self.output.narrowed(hidden).contiguous())
        return self.rows

    def steps(self, most: int) -> int:
        """Turns until a sentence ends, but not more than `most`; gives how many."""
        assert self.reader is not None
        hidden = torch.empty(self.rows.numel(), self.reader.table.size(1))
        return native.ask("beam_steps", self.reader.stack, self.made, *self.reader[1:], hidden, most)
