"""A step of beam search on a CPU, from hidden states to the next beam, in C: see beam.c; the twin is beam.py."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.decoding.board import Board
from weft.decoding.request import Request
from weft.decoding.rows import FixedRows, Rows
from weft.models.embedding import Output
from weft.models.stepper import Writer
from weft.nn.native import decode as native
from weft.text import EOS

HELD: Final = (
    "live", "step", "first", "limit", "prefix", "tokens", "sums", "best", "best_step", "best_place", "ended", "trail",
    "logs",
)  # fmt: skip
"""What the C reads and writes of a board, in its order."""


def serves(rows: Rows, board: Board, request: Request) -> bool:
    """Whether the C is made for it: plain beam search with a network, in single precision, in a steady time."""
    if request.config.sample or not request.recordable or native.steady() is None:
        return False
    if not isinstance(rows, FixedRows) or not isinstance(rows.model, Writer):
        return False
    return native.serves(board.sums, rows.model.output.scores.weight)


class CompiledBeam:
    """What the C needs beside the board, for a model with that output."""

    def __init__(self, board: Board, request: Request, output: Output) -> None:
        self.board, self.request, self.output = board, request, output
        self.held = [getattr(board, name) for name in HELD]
        assert all(tensor.is_contiguous() for tensor in self.held)
        self.pointers = native.pointers(self.held)
        rows, width = board.tokens.numel(), board.shape.width
        parts = native.parts(output.scores.out_features)
        self.room: list[Any] = [torch.empty(rows), *(torch.empty(rows, parts) for _ in range(2))]
        """Bounds, and of each part its maximum and its sum."""
        self.room += [torch.empty(rows, parts, width), torch.empty(rows, parts, width, dtype=torch.long)]
        """The best of each part, and their tokens."""
        self.rows = torch.empty(rows, dtype=torch.long)

    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (A·K, D) -> the row (A·K,) that each row continues now. The board is one step further."""
        steady, scores, config = native.steady(), self.output.scores, self.request.config
        assert steady is not None
        packed, never, shape = steady.packed(scores), self.request.forbidden, self.board.shape
        native.call(
            "beam_step", self.pointers, self.output.narrowed(hidden).contiguous(), packed.weight, packed.bias, never,
            *self.room, self.rows, shape.lanes, shape.width, scores.in_features, scores.out_features, never.numel(),
            EOS, config.min_length, shape.n_best, self.board.prefix.size(1), self.board.trail.size(1),
            int(config.stop == "bound"), config.length_penalty,
        )  # fmt: skip
        return self.rows
