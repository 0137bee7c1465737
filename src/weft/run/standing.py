"""How far a training has come: all that the rest of it depends on, written to a checkpoint and read back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import save_file, save_model
from torch import Tensor, nn

from weft.errors import RunError
from weft.run.checkpoint_state import read_state, write_state
from weft.run.files import shorten
from weft.run.learning import Learning
from weft.run.manifest import RunFiles, read_run
from weft.run.weights import load_weights, open_tensors
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
        read_run(folder, lambda files: self._read_weights(files, state))
        try:
            self.average.kept.extend((entry["step"], self._fitting(entry["weights"])) for entry in state["average"])
            self.tokens, self.earlier, self.began = state["tokens"], state["seconds"], time.monotonic()
            self.learning.restore(state["learning"])
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
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
