"""The door to search: greedy for a beam of 1, beam search for more, sampling on request.

Sentences wait in a queue, the longest first, and take a lane each; where one ends, the next begins. At the end, when
nobody waits, lanes are given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from weft.decoding.beam import advance_beam
from weft.decoding.board import Board, Shape
from weft.decoding.config import DecodeConfig
from weft.decoding.hypothesis import Hypothesis
from weft.decoding.request import Request, prepare
from weft.decoding.rows import MOST_ROWS, Rows, open_rows
from weft.decoding.sample import advance_sample
from weft.decoding.trail import read_lanes
from weft.models.stepper import FixedStepper, Stepper
from weft.text import MASK, PAD, SOS

NEVER: Final = (PAD, SOS, MASK)
"""Tokens that are never proposed."""

FREE: Final = 8
"""New sentences are taken in when one in so many lanes is free; lanes are given up likewise."""


@torch.inference_mode()
def search(
    model: Stepper | FixedStepper,
    memory: Any,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    limits: Sequence[int] | None = None,
    forbid: Sequence[int] = NEVER,
    keys: Sequence[int] | None = None,
    attention: bool = True,
) -> list[list[Hypothesis]]:
    """The n_best hypotheses, best first, for each of `count` sentences of the memory.

    prefixes: tokens that a sentence is made to begin with; they count in neither score nor length. limits: the most
    tokens of each sentence, where config.max_length is too generous. keys: numbers that tell the sentences apart when
    sampling (their place in the file, say; by default their place in this batch). attention: whether hypotheses carry
    where the model looked. What is found for a sentence does not depend on the others. A list is shorter than n_best
    only where no more texts are possible. The model should be in evaluation mode.
    """
    if count == 0:
        return []
    request = prepare(model, count, config, prefixes=prefixes, limits=limits, forbid=forbid, keys=keys)
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for sentence, hypotheses in Search(model, memory, request, attention=attention).run():
        found[sentence] = hypotheses
    return found


class Search:
    """One search over all sentences of a request."""

    def __init__(self, model: Stepper | FixedStepper, memory: Any, request: Request, *, attention: bool) -> None:
        config, device = request.config, request.device
        self.request, self.each = request, config.n_best if config.sample else config.beam
        self.joins = isinstance(model, FixedStepper)
        longest_first = (request.prefix_lengths + request.limits).argsort(descending=True, stable=True).tolist()
        lanes = max(1, MOST_ROWS[device.type] // self.each) if self.joins else request.count
        self.owners: list[int | None] = longest_first[:lanes]
        self.waiting = longest_first[lanes:]
        sentences = torch.tensor(self.owners, device=device)
        self.rows: Rows = open_rows(model, memory, sentences, request, each=self.each, attention=attention)
        shape = Shape(
            lanes=len(self.owners),
            width=self.each,
            n_best=config.n_best,
            room=request.room,
            prefix=request.prefixes.size(1),
            draws=config.sample,
        )
        self.board = Board(shape, device, dtype_of(model))
        self.board.admit(self.board.lanes, request, sentences)

    def run(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Each sentence with its hypotheses, as it ends."""
        while self.owners:
            self.turn()
            yield from self.harvest()
            self.fill()

    def turn(self) -> None:
        """One step of every lane."""
        logits, _, attention = self.rows.step(self.board.tokens.view(-1))
        if self.request.config.sample:
            advance_sample(self.board, logits, self.request, attention)
            return
        rows = advance_beam(self.board, logits, self.request, attention)
        if self.each > 1:
            self.rows.reorder(rows)

    def harvest(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The sentences that have ended since; their lanes are free."""
        live = self.board.live.tolist()
        done = [lane for lane, owner in enumerate(self.owners) if owner is not None and not live[lane]]
        if not done:
            return
        config = self.request.config
        for number, lane in zip(done, read_lanes(self.board, self._lanes(done)), strict=True):
            sentence, self.owners[number] = self.owners[number], None
            assert sentence is not None
            yield sentence, lane.hypotheses(config.n_best, config.length_penalty)

    def fill(self) -> None:
        """Give free lanes to those who wait, or up."""
        free = [lane for lane, owner in enumerate(self.owners) if owner is None]
        if not free or (self.joins and FREE * len(free) < len(self.owners)):
            return
        if self.waiting:
            lanes = free[: len(self.waiting)]
            taken, self.waiting = self.waiting[: len(lanes)], self.waiting[len(lanes) :]
            for lane, sentence in zip(lanes, taken, strict=True):
                self.owners[lane] = sentence
            sentences = torch.tensor(taken, device=self.request.device)
            self.rows.admit(self._lanes(lanes), sentences)
            self.board.admit(self._lanes(lanes), self.request, sentences)
            return
        kept = [lane for lane, owner in enumerate(self.owners) if owner is not None]
        self.owners = [self.owners[lane] for lane in kept]
        if kept:
            self.board.keep(self._lanes(kept))
            self.rows.keep(self._lanes(kept))

    def _lanes(self, lanes: list[int]) -> Tensor:
        return torch.tensor(lanes, device=self.request.device)


def dtype_of(model: Any) -> torch.dtype:
    """The type of scores: that of a network, but no less than single precision; double for any other model."""
    if not isinstance(model, torch.nn.Module):
        return torch.float64
    return torch.promote_types(next(model.parameters()).dtype, torch.float32)
