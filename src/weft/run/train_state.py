"""The state of a training, written to a checkpoint and read back: all that the remaining updates depend on."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from weft.errors import RunError
from weft.run.folder.checkpoint import read_state, write_state
from weft.run.folder.files import shorten
from weft.run.folder.manifest import RunFiles, read_run
from weft.run.folder.weights import load_weights, open_tensors, tied_names, write_tensors, write_weights
from weft.tasks import Tree
from weft.training import Average, Best
from weft.training.best import copy_weights

if TYPE_CHECKING:
    from weft.run.job import AnyLearner

LAST, BEST = "model.safetensors", "best.safetensors"

LEARNER_COUNTS, BEST_COUNTS = ("number", "epoch", "batch"), ("step", "since")
COUNTS = (("tokens",), *(("learning", name) for name in LEARNER_COUNTS), *(("best", name) for name in BEST_COUNTS))
"""The places of whole numbers in the state of a checkpoint that training continues to count from."""

MINIMUM = {"exp_avg_sq": 0.0}
"""The smallest value that an optimizer may keep under a name."""


class Stateful(Protocol):
    """A part of a training that remembers values from one update to the next."""

    def state(self) -> Tree:
        """Return them as tables, lists, tuples, tensors and plain values."""
        ...

    def restore(self, state: Tree) -> None:
        """Continue from these values."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """A copy of a training state that later updates do not change."""

    step: int
    last: dict[str, Tensor]
    best: dict[str, Tensor]
    """Empty if the last weights are the best, or if there are none."""
    tied: dict[str, str]
    state: Tree
    files: Mapping[str, bytes]
    """Other files, by their names."""

    def write(self, folder: Path) -> dict[str, str]:
        """Write the files of a checkpoint; return the SHA-256 of the large ones, by their names."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        hashes = {LAST: write_weights(folder / LAST, self.last, self.tied)}
        if self.best:
            hashes[BEST] = write_tensors(folder / BEST, self.best)
        return hashes | write_state(folder, self.state)


@dataclass
class TrainState:
    """The model, its learner, its best and latest weights, and the tokens and seconds of training so far."""

    model: nn.Module
    learner: AnyLearner
    best: Best
    average: Average
    tokens: int = 0
    earlier_seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Time of training, including that of earlier processes."""
        return self.earlier_seconds + time.monotonic() - self.began

    def snapshot(self, head: Tree, files: Mapping[str, bytes] = MappingProxyType({})) -> Snapshot:
        """Copy the state; `head` describes the run and is read before the rest, `files` are written beside it.

        The weights of the best model and of those to be averaged are replaced during training, never changed in place,
        so they are not copied.
        """
        number, best = self.learner.number, self.best
        is_best = bool(best.weights) and best.step == number
        state = {
            "learning": copy_state(self.learner.state()),
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
            state=head | state,
            files=files,
        )

    def read(self, folder: Path) -> None:
        """Restore everything from a checkpoint."""
        state = read_state(folder)
        try:
            _check_numbers(state)
            read_run(folder, lambda files: self._read_weights(files, state))
            self.average.kept.extend((entry["step"], self._checked(entry["weights"])) for entry in state["average"])
            self.tokens, self.earlier_seconds, self.began = state["tokens"], state["seconds"], time.monotonic()
            self.learner.restore(state["learning"])
        except torch.OutOfMemoryError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            what = f"is of another training, or damaged: {type(error).__name__}: {shorten(str(error))}"
            raise RunError(what, where=str(folder), cure="train again in another folder") from error

    def _read_weights(self, files: RunFiles, state: Tree) -> None:
        """Read the latest weights into the model, and the best ones into `best`."""
        load_weights(files, LAST, self.model)
        self.best.resume(state["best"])
        if files.has(BEST):
            with open_tensors(files, BEST, like=self.model, each=True) as stored:
                self.best.weights = dict(stored.finite())
        elif self.best.step:
            self.best.keep(self.model)

    def _checked(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return earlier weights; raise unless they have the shapes and types of this model."""
        for name, tensor in self.model.state_dict().items():
            if (weights[name].shape, weights[name].dtype) != (tensor.shape, tensor.dtype):
                raise ValueError(f"an earlier {name} is of another shape or type")
        return weights


def copy_state(value: Any) -> Any:
    """Return the same tree with every tensor copied to CPU memory of its own."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    if isinstance(value, Mapping):
        return {key: copy_state(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(copy_state, value))
    return value


def _check_numbers(state: Tree) -> None:
    """Raise where a count or a score is of another type: an error would come up in the middle of training otherwise."""
    for path in COUNTS:
        count: Any = reduce(getitem, path, state)
        if type(count) is not int or not 0 <= count < 1 << 53:
            raise ValueError(f"{'.'.join(path)} is no count")
    if state["best"]["step"] > state["learning"]["number"]:
        raise ValueError("best.step is an update that was not made yet")
    for name, value in state["best"].items():
        if not isinstance(value, int | float):
            raise ValueError(f"best.{name} is no number")


class RandomState:
    """The random number generators of python, numpy, torch and every CUDA device."""

    def state(self) -> Tree:
        version, numbers, gauss = random.getstate()
        kind, keys, *rest = np.random.get_state()
        return {
            "python": (version, torch.tensor(numbers), gauss),
            "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def restore(self, state: Tree) -> None:
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers.tolist()), gauss))
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
        torch.set_rng_state(state["torch"])
        if len(state["cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda"])


class OptimizerState:
    """The moments that an optimizer keeps for each parameter, by the parameter's name.

    Settings of the optimizer are not part of it: they come from the configuration, and the rate from the schedule.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        names = {parameter: name for name, parameter in model.named_parameters()}
        self.parameters = {
            names[parameter]: parameter for group in optimizer.param_groups for parameter in group["params"]
        }

    def state(self) -> Tree:
        state = self.optimizer.state
        return {name: dict(state[parameter]) for name, parameter in self.parameters.items() if parameter in state}

    def restore(self, state: Tree) -> None:
        """Load the moments after a check of their shapes and values, which the optimizer itself does not check.

        A sum of squares may have become infinite in training; a NaN is never right.
        """
        settings = self.optimizer.defaults
        # Plain gradient descent keeps nothing.
        by_sgd = {"momentum_buffer"} if settings.get("momentum") else set()
        expected = {"exp_avg", "exp_avg_sq", "step"} if "betas" in settings else by_sgd
        for name, values in state.items():
            parameter = self.parameters[name]
            if values.keys() != expected or not all(_fits(key, value, parameter) for key, value in values.items()):
                raise ValueError(f"what the optimizer keeps of {name} does not fit it")
        numbers = {name: number for number, name in enumerate(self.parameters)}
        groups = self.optimizer.state_dict()["param_groups"]
        moments = {numbers[name]: values for name, values in state.items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _fits(key: str, value: Any, parameter: Tensor) -> bool:
    """Return whether the optimizer may keep this value for a parameter under that name."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or bool(value.isnan().any()):
        return False
    if key == "step":
        return value.dim() == 0 and 0 <= float(value) < 2**53
    return (
        value.shape == parameter.shape
        and value.dtype == parameter.dtype
        and bool((value >= MINIMUM.get(key, -math.inf)).all())
    )
