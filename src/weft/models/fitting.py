"""The contract of models that fit themselves to their examples: by counting, or by updates of their own in C.

All other models learn by gradients of a loss that torch computes (`training/`). A fitted model is trained, resumed,
chosen, saved and reported by the same code; only its updates are its own. It runs on the CPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import torch
from torch import Tensor, nn

from weft.data import Examples
from weft.settings import Settings

GRADIENT_SETTINGS: Final = (
    "accumulate",
    "average",
    "beta2",
    "class_weights",
    "clip",
    "clip_value",
    "compile",
    "freeze",
    "label_smoothing",
    "momentum",
    "new_rate",
    "optimizer",
    "plateau_factor",
    "plateau_patience",
    "precision",
    "rate_decay",
    "schedule",
    "skip_bad",
    "start",
    "teacher_forcing",
    "truncate",
    "unfreeze_every",
    "warmup",
    "weight_decay",
)
"""The settings of `[train]` that only training by gradients reads."""

UPDATE_SETTINGS: Final = (
    "batch_tokens",
    "checkpoint_every",
    "epochs",
    "evaluate_every",
    "patience",
    "rate",
    "seconds",
    "steps",
)
"""The settings of `[train]` that a model of counts does not read either: it reads the data once."""


class FittedSettings(Settings):
    """The settings of a model that fits itself."""

    unused_train: ClassVar[tuple[str, ...]] = GRADIENT_SETTINGS
    """The settings of `[train]` that nothing reads with this model."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The settings of `[train]` for a model that fits itself; it reads those that are not in `unused_train`."""

    epochs: int
    steps: int | None = None
    """The number of updates, where the configuration limits it; there are then as many epochs as they need."""
    rate: float
    batch_tokens: int
    seed: int
    threads: int
    label_weights: Tensor | None = None
    """Weights of errors by label (C); with `many_labels` of absent labels and of present ones (2, C)."""
    many_labels: bool = False
    """Whether an example may have any number of labels."""


class FitStep(NamedTuple):
    """One part of fitting: the tokens that it read, the mean loss over them or NaN, the learning rate or 0."""

    tokens: int
    loss: float = float("nan")
    rate: float = 0.0
    notes: tuple[str, ...] = ()


class Fit(ABC):
    """Fits a model to its examples, in `total` parts."""

    total: int
    every: int
    """Parts between two validations, usually one pass over the data; `total` for a model of counts."""
    resumable: bool = True
    """Whether checkpoints are written between parts. Without them a training that was interrupted begins again."""
    grows: bool = False
    """Whether its parts decide the size of the model, so that its parameters can be counted only after the last."""

    @abstractmethod
    def step(self, number: int) -> FitStep:
        """Do part `number`, counted from 1. After the last one the model is complete; it can be used after each."""

    def state(self) -> dict[str, Any]:
        """The values that later parts depend on beside the weights: tables, lists, tensors and plain values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Continue from these values."""


class FittedModel(nn.Module, ABC):
    """A model that fits itself. Probabilities and weights are parameters without gradients, integer tables buffers."""

    can_be_infinite: bool = False
    """Whether it may give a text the probability 0, so that its loss is infinite."""

    @abstractmethod
    def fit(self, examples: Examples, options: FitOptions) -> Fit:
        """Start to fit the model to the training examples."""

    def allocate(self, shapes: Mapping[str, torch.Size]) -> None:
        """Allocate the tensors of a file, whose sizes depend on the data that the model was fitted to.

        A ValueError says why these cannot be the shapes of such a model. The model may be on the "meta" device.
        """

    def check(self) -> None:
        """Raise a ValueError if loaded numbers could make the model fail, such as an index out of range."""
