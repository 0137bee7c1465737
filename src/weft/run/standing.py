"""How far a training has come: all that the rest of it depends on, written to a checkpoint and read back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from weft.run.checkpoint_state import read_state, write_state
from weft.run.learning import Learning
from weft.tasks import Tree
from weft.training import Average, Best

LAST, BEST = "model.safetensors", "best.safetensors"


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

    def write(self, folder: Path, about: Tree) -> None:
        """`about` is what has to be known before the rest is of use: it comes back first, from `read_state`."""
        save_model(self.model, str(folder / LAST))
        if self.best.weights and self.best.step != self.learning.number:
            save_file(self.best.weights, folder / BEST)
        standing = {
            "learning": self.learning.state(),
            "best": self.best.state(),
            "average": [{"step": step, "weights": weights} for step, weights in self.average.kept],
            "tokens": self.tokens,
            "seconds": self.seconds,
        }
        write_state(folder, about | standing)

    def read(self, folder: Path) -> None:
        state = read_state(folder)
        load_model(self.model, str(folder / LAST))
        self.best.resume(state["best"])
        if (folder / BEST).exists():
            self.best.weights = {name: tensor.clone() for name, tensor in load_file(folder / BEST).items()}
        elif self.best.step:
            self.best.keep(self.model)
        self.average.kept.extend((entry["step"], entry["weights"]) for entry in state["average"])
        self.tokens, self.earlier, self.began = state["tokens"], state["seconds"], time.monotonic()
        self.learning.restore(state["learning"])
