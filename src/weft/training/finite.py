"""Updates whose loss or gradient is not finite: they are skipped, reported, and too many in a row end the training."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from weft.errors import Fault
from weft.training.events import Update

MAX_OVERFLOWS: Final = 50
"""Updates in a row that loss scaling may skip: it starts with a scale that is too large, and halves it each time."""


class Finite:
    """Counts the updates in a row that were skipped; more than `skip_bad` raise a Fault.

    With `scaled` losses a gradient that overflows while the loss is finite is expected, and not reported.
    """

    def __init__(self, *, rate: float, skip_bad: int, scaled: bool) -> None:
        self.rate, self.skip_bad, self.scaled = rate, skip_bad, scaled
        self.bad = self.overflows = 0

    def check(self, update: Update) -> str:
        """Return a note about a skipped update, or an empty string; blocks until the numbers have arrived."""
        loss = update.loss
        if update.numbers.finite:
            self.bad = self.overflows = 0
            return ""
        if self.scaled and math.isfinite(loss):
            self.overflows += 1
            if self.overflows > MAX_OVERFLOWS:
                raise self._end(update, self.overflows)
            return ""
        self.bad += 1
        if self.bad > self.skip_bad:
            raise self._end(update, self.bad)
        return (
            f"update {update.number:,} was left out: {_what(update)} is not finite (loss {loss:.4g}) "
            f"with {_source(update)}; "
            f"{self.bad} in a row, and more than train.skip_bad = {self.skip_bad} would end the run"
        )

    def _end(self, update: Update, row: int) -> Fault:
        wider = ', or use train.precision = "bf16" or "float32"' if self.scaled else ""
        before = f", nor at the {row - 1} before it" if row > 1 else ""
        found = f"(loss {update.loss:.4g}, {_source(update)})"
        return Fault(
            f"{_what(update)} is not finite at update {update.number}{before} {found}",
            cure=f"lower train.rate, now {self.rate:g}, or set train.clip{wider}",
        )


def _what(update: Update) -> str:
    return "the gradient" if math.isfinite(update.loss) else "the loss"


def _source(update: Update) -> str:
    """The examples of the batches to blame: those whose loss is not finite, or all if only the gradient is bad."""
    losses = update.numbers.parts
    if losses and not math.isfinite(update.loss):
        blamed = [origin for origin, loss in zip(update.origins, losses, strict=False) if not math.isfinite(loss)]
        return "; ".join(map(str, blamed)) or "a batch of another process"
    return "; ".join(map(str, update.origins)) or f"a batch of {update.tokens:,} tokens"


def can_skip(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer skips an update when its `found_inf`, a number on the device, is 1: fused ones do."""
    return all(group.get("fused") for group in optimizer.param_groups)


def step_if_finite(optimizer: torch.optim.Optimizer, number: Tensor) -> None:
    """Update the model if the number is finite. The device decides; the host does not wait for it."""
    optimizer.found_inf = number.isfinite().logical_not().float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.found_inf = None  # type: ignore[attr-defined]
