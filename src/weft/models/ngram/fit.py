"""Fitting an n-gram model: one part for each order, then the model of the orders counted so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from weft.data import Examples
from weft.models.fitting import Fit, FitStep
from weft.models.ngram.counting import NgramCounter

if TYPE_CHECKING:
    from weft.models.ngram.model import NgramModel


class NgramFit(Fit):
    """Part n counts the n-grams of order n. Counting takes seconds, so it is not resumed but begun again."""

    resumable = False
    grows = True

    def __init__(self, model: NgramModel, examples: Examples) -> None:
        self.model, self.total, self.every = model, model.order, model.order
        self.counter = NgramCounter(examples, model.vocabulary)
        self.began = time.perf_counter()

    def step(self, number: int) -> FitStep:
        last, counter = number == self.total, self.counter
        counter.next_level(last=last)
        notes: tuple[str, ...] = ()
        if last:
            notes = self._estimate()
        # Every part reads all tokens; they are shared out, so that the sum of all parts is their number.
        return FitStep(counter.tokens * number // self.total - counter.tokens * (number - 1) // self.total, notes=notes)

    def _estimate(self) -> tuple[str, ...]:
        levels = self.counter.levels
        tables, notes = self.model.config.smoothing.estimate(levels, self.model.vocabulary)
        self.model.set_tables(tables)
        size = sum(tensor.numel() * tensor.element_size() for tensor in self.model.state_dict().values())
        sizes = ", ".join(f"{level.size:,}" for level in levels)
        seconds = time.perf_counter() - self.began
        counted = f"counted {sizes} n-grams of order 1 to {self.total} in {seconds:.1f} s"
        return (*notes, f"{counted}; their tables take {size / 2**20:,.1f} MiB")
