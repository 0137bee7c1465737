"""The learner of a model that fits itself: its updates as events, and their state for checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from weft.models.fitting import Fit
from weft.run.train_state import RandomState
from weft.tasks import Tree
from weft.training import Update
from weft.training.numbers import Numbers


class FittedLearner:
    """Makes the updates of a model that fits itself; `number` of them are made."""

    device = torch.device("cpu")

    def __init__(self, fit: Fit) -> None:
        self.fit, self.number, self.random = fit, 0, RandomState()

    @property
    def resumable(self) -> bool:
        """Whether a checkpoint of the current state would be of use."""
        return self.fit.resumable or self.number == self.fit.total

    @property
    def grows(self) -> bool:
        """Whether updates decide the size of the model."""
        return self.fit.grows

    def steps(self) -> Iterator[Update]:
        """Yield the updates that are left."""
        while self.number < self.fit.total:
            began = time.perf_counter()
            done = self.fit.step(self.number + 1)
            self.number += 1
            seconds = time.perf_counter() - began
            yield Update(self.number, done.tokens, done.rate, seconds, Numbers(done.loss, 0.0), notes=done.notes)

    def observe(self, *, progress: bool) -> None:
        """A model that fits itself does not depend on validations."""

    def collect(self) -> None:
        """There is one process, so there is nothing to collect from others."""

    def state(self) -> Tree:
        """Return the number of updates and the state of the fit."""
        parts = {"chance": self.random.state(), "fit": self.fit.state()}
        return {"number": self.number, "plan": type(self.fit).__name__, "epoch": 0, "batch": 0, "parts": parts}

    def restore(self, state: Tree) -> None:
        """Continue from that state."""
        self.number = state["number"]
        self.random.restore(state["parts"]["chance"])
        self.fit.restore(state["parts"]["fit"])
