"""Updates whose loss or gradient is not finite: left out, told, and at some number in a row the end of a training."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from weft.errors import Fault
from weft.training.step import Step

OVERFLOWS: Final = 50
"""Updates in a row that loss scaling may leave out; it starts with one too large and halves it until all is finite."""


class Finite:
    """Counts the updates in a row that were left out; more than `skip_bad` end the training.

    With `scaled` losses a gradient that overflows, while the loss does not, is no mistake of the data: it is not told.
    """

    def __init__(self, *, rate: float, skip_bad: int, scaled: bool) -> None:
        self.rate, self.skip_bad, self.scaled = rate, skip_bad, scaled
        self.bad = self.overflows = 0

    def check(self, step: Step) -> str:
        """What is to be told of an update; nothing if it was made. Reading its numbers may wait for the device."""
        loss = step.loss
        if step.numbers.finite:
            self.bad = self.overflows = 0
            return ""
        if self.scaled and math.isfinite(loss):
            self.overflows += 1
            if self.overflows > OVERFLOWS:
                raise self._end(step, self.overflows)
            return ""
        self.bad += 1
        if self.bad > self.skip_bad:
            raise self._end(step, self.bad)
        return (
            f"update {step.number:,} was left out: {_what(step)} is not finite (loss {loss:.4g}) with {_source(step)}; "
            f"{self.bad} in a row, and more than train.skip_bad = {self.skip_bad} would end the run"
        )

    def _end(self, step: Step, row: int) -> Fault:
        wider = ', or use train.precision = "bf16" or "float32"' if self.scaled else ""
        before = f", nor at the {row - 1} before it" if row > 1 else ""
        return Fault(
            f"{_what(step)} is not finite at update {step.number}{before} (loss {step.loss:.4g}, {_source(step)})",
            cure=f"lower train.rate, now {self.rate:g}, or set train.clip{wider}",
        )


def _what(step: Step) -> str:
    return "the gradient" if math.isfinite(step.loss) else "the loss"


def _source(step: Step) -> str:
    """The batches that are to blame, by their examples: where several made the update, those with such a loss."""
    losses = step.numbers.parts
    if losses and not math.isfinite(step.loss):
        blamed = [origin for origin, loss in zip(step.origins, losses, strict=False) if not math.isfinite(loss)]
        return "; ".join(map(str, blamed)) or "a batch of another process"
    return "; ".join(map(str, step.origins)) or f"a batch of {step.tokens:,} predictions"


def can_skip(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer leaves out an update where its `found_inf`, a number on the device, is 1: fused ones do."""
    return all(group.get("fused") for group in optimizer.param_groups)


def step_if_finite(optimizer: torch.optim.Optimizer, number: Tensor) -> None:
    """Update the model unless the number is not finite, without asking the device which it is."""
    optimizer.found_inf = number.isfinite().logical_not().float()  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.found_inf = None  # type: ignore[attr-defined]
