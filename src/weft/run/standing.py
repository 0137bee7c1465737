"""How far a training has come: all that the rest of it depends on, written to a checkpoint and read back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.errors import RunError
from weft.run.checkpoint_state import copy_state, read_state, write_state
from weft.run.files import shorten
from weft.run.learning import Learning
from weft.run.manifest import RunFiles, read_run
from weft.run.tensors import tied_names, write_tensors, write_weights
from weft.run.weights import load_weights, open_tensors
from weft.tasks import Tree
from weft.training import Average, Best
from weft.training.best import copy_weights

LAST, BEST = "model.safetensors", "best.safetensors"

LEARNING, COUNTED = ("number", "epoch", "batch"), ("step", "since")
COUNTS = (("tokens",), *(("learning", name) for name in LEARNING), *(("best", name) for name in COUNTED))
"""Where a checkpoint has whole numbers that later code counts on from."""


@dataclass(frozen=True)
class Snapshot:
    """A standing in memory of its own, which the updates that follow do not change."""

    step: int
    last: dict[str, Tensor]
    best: dict[str, Tensor]
    """Empty if the last weights are the best, or if there are none."""
    tied: dict[str, str]
    state: Tree

    def write(self, folder: Path) -> dict[str, str]:
        """Write the files of a checkpoint; the SHA-256 of the large ones, by their names."""
        hashes = {LAST: write_weights(folder / LAST, self.last, self.tied)}
        if self.best:
            hashes[BEST] = write_tensors(folder / BEST, self.best)
        return hashes | write_state(folder, self.state)


@dataclass
class Standing:
    """The model, its training, its best and latest weights, and the tokens and seconds it took."""

    model: nn.Module
    learning: Learning
    best: Best
    average: Average
    tokens: int = 0
    earlier: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Time of training, that of the processes before this one included."""
        return self.earlier + time.monotonic() - self.began

    def snapshot(self, about: Tree) -> Snapshot:
        """`about` is what has to be known before the rest is of use: it comes back first, from `read_state`.

        The weights of the best model and of those in the mean are replaced as training goes on, never changed, so they
        need no copy.
        """
        number, best = self.learning.number, self.best
        is_best = bool(best.weights) and best.step == number
        standing = {
            "learning": copy_state(self.learning.state()),
            "best": best.state(),
            "average": [{"step": step, "weights": weights} for step, weights in self.average.kept],
            "tokens": self.tokens,
            "seconds": self.seconds,
        }
        return Snapshot(
            step=number,
            last=best.weights if is_best else copy_weights(self.model),
            best={} if is_best else best.weights,
            tied=tied_names(self.model),
            state=about | standing,
        )

    def read(self, folder: Path) -> None:
        state = read_state(folder)
        try:
            _check_numbers(state)
            read_run(folder, lambda files: self._read_weights(files, state))
            self.average.kept.extend((entry["step"], self._fitting(entry["weights"])) for entry in state["average"])
            self.tokens, self.earlier, self.began = state["tokens"], state["seconds"], time.monotonic()
            self.learning.restore(state["learning"])
        except torch.OutOfMemoryError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            what = f"is of another training, or damaged: {type(error).__name__}: {shorten(str(error))}"
            raise RunError(what, where=str(folder), cure="train again in another folder") from error

    def _read_weights(self, files: RunFiles, state: Tree) -> None:
        """The latest weights into the model, and the best ones beside it."""
        load_weights(files, LAST, self.model)
        self.best.resume(state["best"])
        if files.has(BEST):
            with open_tensors(files, BEST, like=self.model, each=True) as stored:
                self.best.weights = dict(stored.finite())
        elif self.best.step:
            self.best.keep(self.model)

    def _fitting(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights of an earlier moment, which are those of this model."""
        for name, tensor in self.model.state_dict().items():
            if (weights[name].shape, weights[name].dtype) != (tensor.shape, tensor.dtype):
                raise ValueError(f"an earlier {name} is of another shape or type")
        return weights


def _check_numbers(state: Tree) -> None:
    """Raise where a count is none, or a score no number: that would show in the middle of an update, or at the end."""
    for path in COUNTS:
        count: Any = reduce(getitem, path, state)
        if type(count) is not int or not 0 <= count < 1 << 53:
            raise ValueError(f"{'.'.join(path)} is no count")
    if state["best"]["step"] > state["learning"]["number"]:
        raise ValueError("best.step is an update that was not made yet")
    for name, value in state["best"].items():
        if not isinstance(value, int | float):
            raise ValueError(f"best.{name} is no number")
