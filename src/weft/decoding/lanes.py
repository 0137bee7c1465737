"""A search in motion: the model's rows and the board beside them, one turn after another."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.decoding import compiled, fused
from weft.decoding.beam import advance_beam
from weft.decoding.board import Board, Shape
from weft.decoding.compiled import CompiledBeam
from weft.decoding.fused import FusedBeam
from weft.decoding.request import Request, send
from weft.decoding.rows import FixedRows, GrowingRows, Rows
from weft.decoding.sample import advance_sample
from weft.decoding.trail import Reading, read_lanes
from weft.models.stepper import FixedStepper, Stepper, Writer, is_fixed

MOST_ROWS: Final = {"cpu": 128, "cuda": 512}
"""Rows that a step takes at most: enough to keep the device busy; more sentences wait for a free lane."""


class Glance:
    """Which lanes were searching at one moment."""

    def __init__(self, live: Tensor) -> None:
        self.live = live.to("cpu", non_blocking=True, copy=True)
        self.moment = torch.cuda.current_stream().record_event() if live.is_cuda else None

    def read(self) -> list[bool]:
        """Of each lane; waits for that moment."""
        if self.moment is not None:
            self.moment.synchronize()
        found: list[bool] = self.live.tolist()
        return found


class Lanes:
    """A lanes of K hypotheses; a turn is a step of each."""

    joins = True
    """Whether a sentence may begin where another ended."""
    shrinks = True
    """Whether lanes can be given up."""
    ahead = 0
    """How many times turns are made before anybody looks at what came of the first of them."""

    def __init__(self, rows: Rows, board: Board, rules: Request) -> None:
        self.rows, self.board, self.rules = rows, board, rules
        self.fused: FusedBeam | None = None
        self.compiled: CompiledBeam | None = None

    @property
    def count(self) -> int:
        return self.board.shape.lanes

    def turns(self, most: int) -> int:
        """Make one turn or, where that is quicker, several, but not more than `most`; gives how many."""
        if not compiled.serves(self.rows, self.board, self.rules):
            self.turn()
            return 1
        assert isinstance(self.rows, FixedRows)
        assert isinstance(self.rows.model, Writer)
        if self.compiled is None:
            reader = None if self.rules.follows else compiled.reader_of(self.rows, self.board)
            self.compiled = CompiledBeam(self.board, self.rules, self.rows.model.output, reader)
        if self.compiled.reader is not None:
            return self.compiled.turns(most)
        self._settle(self._turn_compiled(self.compiled))
        return 1

    def turn(self) -> None:
        """A step of the model and of the board."""
        self._settle(self._turn())

    def _settle(self, rows: Tensor | None) -> None:
        self.rows.settle(rows if self.board.shape.width > 1 else None)

    def _turn(self) -> Tensor | None:
        """One step of the model and of the board -> the row that each row continues; none where each is its own."""
        board, rules = self.board, self.rules
        logits, _, attention = self.rows.step(board.tokens.view(-1))
        if rules.config.sample:
            advance_sample(board, logits, rules, attention)
            return None
        if attention is None and rules.plain and fused.serves(board, logits):
            self.fused = self.fused or FusedBeam(board, rules, logits.size(1))
            return self.fused(logits)
        return advance_beam(board, logits, rules, attention)

    def _turn_compiled(self, beam: CompiledBeam) -> Tensor:
        """The same with the board's side in C."""
        assert isinstance(self.rows, FixedRows)
        hidden, _, attention = self.rows.hidden_step(self.board.tokens.view(-1))
        self.board.look(attention)
        return beam(hidden)

    def glance(self) -> Glance:
        """Which lanes are searching after the turns that were made, to be read when that is known."""
        return Glance(self.board.live)

    def read(self, lanes: list[int], since: Glance) -> Reading:
        """What lanes hold that were searching no more at that moment."""
        return read_lanes(self.board, send(lanes, self.board.device))

    def admit(self, lanes: Tensor, request: Request, sentences: list[int]) -> None:
        """Sentences of a request begin in those lanes."""
        numbers = send(sentences, request.device)
        self.rows.admit(lanes, numbers, [request.prompts[sentence] for sentence in sentences])
        self.board.admit(lanes, request, numbers)

    def keep(self, lanes: Tensor) -> None:
        """Go on with those lanes alone."""
        self.board.keep(lanes)
        self.rows.keep(lanes)
        self.fused = self.compiled = None

    def close(self) -> None:
        """Nobody searches here any more."""


class GrowingLanes(Lanes):
    """Of a stepper whose states may have any shape."""

    joins = False


def open_lanes(
    model: Stepper | FixedStepper, memory: Any, request: Request, sentences: list[int], *, attention: bool
) -> Lanes:
    """Lanes in which these sentences have begun, as the model can have them."""
    shape, numbers = shape_of(request, len(sentences)), send(sentences, request.device)
    board = Board(shape, request.device, dtype_of(model))
    board.admit(board.lanes, request, numbers)
    if is_fixed(model):
        rows = FixedRows(model, memory, numbers, shape.width, room=request.room, attention=attention)
        rows.read(board.lanes, [request.prompts[sentence] for sentence in sentences])
        return Lanes(rows, board, request)
    return GrowingLanes(GrowingRows(model, memory, numbers, shape.width), board, request)


def shape_of(request: Request, lanes: int) -> Shape:
    """The shape that a request needs, in so many lanes."""
    return Shape(
        lanes=lanes,
        width=request.width,
        n_best=min(request.width, request.config.n_best),
        room=max(request.turns),
        prefix=request.prefixes.size(1),
        draws=request.config.sample,
    )


def dtype_of(model: Any) -> torch.dtype:
    """The type of scores: that of a network, but no less than single precision; double for any other model."""
    if not isinstance(model, torch.nn.Module):
        return torch.float64
    return torch.promote_types(next(model.parameters()).dtype, torch.float32)
