"""Just enough of a task for the loop: a line through points."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from weft.tasks import Batch, Loss
from weft.training import SCHEDULES, LoopOptions, Numbers, Update, steps


@dataclass(frozen=True)
class Points(Batch):
    x: Tensor
    y: Tensor


class Regression:
    def loss(self, model, batch, *, label_smoothing=0.0):
        return Loss((model(batch.x) - batch.y).square().sum(), len(batch.y))


class LateNumbers(Numbers):
    """Numbers that arrive when the test says so; to read them earlier would be to wait."""

    def __init__(self, loss, gradient):
        super().__init__(loss, gradient)
        self.here = False

    @property
    def arrived(self):
        return self.here

    def read(self):
        assert self.here, "somebody waited for the device"
        return super().read()


@pytest.fixture
def points():
    """Batches of points, drawn anew with every call."""

    def draw(rows=8, *, value=None, seed=0):
        random = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, 2, generator=random) if value is None else torch.full((rows, 2), value)
        return Points(rows, x, torch.randn(rows, 1, generator=random))

    return draw


@pytest.fixture
def run_steps():
    """A model and the loop over it."""

    def run(batches, *, objective=None, device="cpu", optimizer=None, schedule=None, start=0, **options):
        torch.manual_seed(0)
        model = nn.Linear(2, 1).to(device)
        chosen = torch.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer(model)
        return model, steps(
            model,
            objective or Regression(),
            batches,
            optimizer=chosen,
            schedule=schedule or SCHEDULES["constant"](0, 9),
            options=LoopOptions(**options),
            start=start,
        )

    return run


@pytest.fixture
def late_step():
    """An update whose numbers are still on their way."""
    return lambda number, loss=1.0: Update(number, 10, 0.1, 0.01, LateNumbers(loss, 1.0))
