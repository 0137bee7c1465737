"""What a task is: records → examples → batch → loss, predictions, scores. One page per task stands beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import field_validator
from torch import Tensor, nn

from weft.data import BadLines, Capacity, Columns, Examples, Limit, Record, Shape
from weft.decoding import DecodeConfig
from weft.nn import Packing
from weft.settings import Settings
from weft.text import TextConfig, Tokenizer

Tree = dict[str, Any]
"""A part of a configuration as plain nested tables."""

Rows = Sequence[int] | NDArray[np.int64]
"""Numbers of examples."""

NAMED = 8
"""Examples of a batch that a message names."""

UNSEEN = -1
"""The number of a label that training never saw: never right, and never learned from."""


@dataclass(frozen=True)
class Loss:
    """Sum of the losses and the number of predictions it is a sum over: count first, divide last."""

    total: Tensor
    count: int


class Facts(NamedTuple):
    """What defaults depend on: the size of the training data, the type of the device, what the texts of pairs look
    like."""

    examples: int
    characters: int
    device: str = "cpu"
    source: Shape | None = None
    target: Shape | None = None


@dataclass(frozen=True)
class Codec:
    """What was learned from the training text before the model: tokenizers by their role, and the labels."""

    tokenizers: Mapping[str, Tokenizer]
    labels: tuple[str, ...] = ()

    def side(self, role: str) -> Tokenizer:
        """The tokenizer of a role, or the one that serves all roles."""
        return self.tokenizers[role] if role in self.tokenizers else self.tokenizers[""]

    @cached_property
    def label_ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def label_id(self, label: str) -> int:
        """The number of a label; `UNSEEN` for one that training never saw."""
        return self.label_ids.get(label, UNSEEN)


@dataclass(frozen=True)
class Origin:
    """The examples that a batch was made of, and how batches of some of them are made."""

    rows: NDArray[np.int64]
    examples: Examples
    make: Callable[[NDArray[np.int64]], Batch]

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches, each of half the examples."""
        middle = len(self.rows) // 2
        return self.make(self.rows[:middle]), self.make(self.rows[middle:])

    def __str__(self) -> str:
        """The first of the examples, by their places in a file where these are known."""
        some = self.rows[:NAMED]
        places = [record.place for record in self.examples.pick(some) if record.place]
        named = ", ".join(places) if places else f"training examples {', '.join(map(str, some.tolist()))}"
        return named if len(self.rows) <= NAMED else f"{named} and {len(self.rows) - NAMED:,} more"


@dataclass(frozen=True)
class Batch:
    """What goes through the model together: tensors, packings, plain numbers, None; each task adds its own."""

    count: int
    """The predictions that its loss is a sum over."""
    origin: Origin | None = field(default=None, kw_only=True, repr=False, compare=False)
    """What it was made of, where it can be made again in smaller parts."""
    reads: int = field(default=0, kw_only=True)
    """The tokens that it reads, where it predicts less than one for each."""

    @property
    def token_count(self) -> int:
        """The tokens that speed is counted in: those read, or those predicted where each is."""
        return self.reads or self.count

    def to(self, device: torch.device) -> Self:
        """On the device; from pinned memory the copies run beside whatever the processor does next."""
        return self._each(lambda part: _move(part, device))

    def pin(self) -> Self:
        """In memory from which a GPU copies by itself."""
        return self._each(lambda part: part.pin_memory())

    def _each(self, change: Callable[[Any], Any]) -> Self:
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(
            self, **{name: change(part) for name, part in parts.items() if isinstance(part, Tensor | Packing)}
        )


def _move(part: Tensor | Packing, device: torch.device) -> Tensor | Packing:
    return part.to(device) if isinstance(part, Packing) else part.to(device, non_blocking=True)


class Prediction(Protocol):
    """One answer: `str()` is what a terminal shows, `record()` what `--json` writes."""

    def __str__(self) -> str: ...

    def record(self) -> Tree: ...

    def line(self, *, probabilities: bool = False) -> str:
        """The answer in one line of plain text, with all that was asked for, separated by tabs."""
        ...

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        """The answer as cells of a table; `name` is the column of the answer itself."""
        ...


class Scores(Protocol):
    """The running sums of one evaluation."""

    def metrics(self) -> dict[str, float]:
        """The numbers a report has."""
        ...

    def details(self) -> Tree:
        """What explains them: tables, signatures, units."""
        ...


class DataConfig(Settings):
    """The `[data]` section as every task has it."""

    train: str | list[str]
    """Training examples."""
    valid: str | list[str] | None = None
    """Validation examples; without them a part of `train` is set aside."""
    test: str | list[str] | None = None
    """Test examples, looked at once, when training is over."""

    @field_validator("train", "valid", "test")
    @classmethod
    def _names_files(cls, paths: str | list[str] | None) -> str | list[str] | None:
        if isinstance(paths, list) and (not paths or "" in paths):
            raise ValueError("names no file; give a path")
        return paths

    @property
    def running(self) -> bool:
        """Whether a file is one running text, whose records are blocks of it."""
        return False


class Sections(NamedTuple):
    """The types of the three sections of a configuration that differ between tasks.

    `model` is a table of settings, or a choice of several: `Annotated[…, OneOf(ARMS)]`. `marks` counts the start and
    end tokens that a network reads beside the tokens of an example.
    """

    data: type[DataConfig]
    text: type[TextConfig]
    model: Any
    marks: int = 1


def written(tree: Mapping[str, Any], *path: str) -> Any:
    """What a person wrote at a path of the configuration, as a table or as settings; None where there is nothing."""
    found: Any = tree
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
    return found


@runtime_checkable
class Choosing(Protocol):
    """A task whose metric depends on the data."""

    @staticmethod
    def reason(facts: Facts) -> str:
        """Why a model is chosen by the metric that the defaults name."""
        ...


class Task(Protocol):
    """A task owns its record type, its data formats and its defaults, and nothing else."""

    name: str
    summary: str
    metric: str
    metrics: tuple[str, ...]
    """What it can measure: of the class with any data, of an object with the labels that it has."""
    sections: Sections
    codec: Codec

    def __init__(self, codec: Codec, data: Any) -> None: ...

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        """Settings that suit training data of this size and the kinds of network in the user's tree, below the tree."""
        ...

    @staticmethod
    def read(path: str | list[str], data: Any, bad: BadLines) -> Iterator[Any]:
        """The records of a file."""
        ...

    @staticmethod
    def columns(data: Any) -> Columns:
        """The columns of a table, or of examples given in Python, that a record is made of."""
        ...

    @staticmethod
    def roles(text: Any) -> dict[str, TextConfig]:
        """The tokenizers of the task by their role, each with its settings."""
        ...

    @staticmethod
    def learn(records: Iterable[Any], text: Any) -> Codec:
        """Tokenizers and labels from the training records."""
        ...

    @staticmethod
    def build(model: Any, codec: Codec) -> nn.Module:
        """The network, with sizes known only now."""
        ...

    def limit(self, *, training: bool) -> Limit | None:
        """The longest example and what to do with longer ones."""
        ...

    def encode(self, records: Sequence[Any], limit: Limit | None) -> dict[str, list[list[int]]]:
        """Columns of token ids; a limit may drop a record or cut it into several rows."""
        ...

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        """How long each example is in a padded batch (N,); where it has two sides, of each (N, 2)."""
        ...

    def collate(self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None) -> Any:
        """Build the batch of these rows; packed has no padding between rows, and fills the capacity if one is given."""
        ...

    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss:
        """The loss of a batch; padding never counts."""
        ...

    def scores(self) -> Scores:
        """Running sums for `measure` to add to."""
        ...

    def measure(self, model: nn.Module, batch: Any, scores: Any, *, records: Sequence[Any]) -> None:
        """Add a batch to the scores."""
        ...

    def record(self, source: Any) -> Record:
        """An input to predict for, as a record without its answer."""
        ...

    def predict(
        self,
        model: nn.Module,
        batch: Any,
        *,
        records: Sequence[Any],
        decode: DecodeConfig,
    ) -> Sequence[Prediction]:
        """Answers for a batch, in its order."""
        ...


def cross_entropy(logits: Tensor, targets: Tensor, *, count: int | None = None, label_smoothing: float = 0.0) -> Loss:
    """Sum of -log softmax(logits)[target] over logits (N, C) and targets (N), in float32.

    `count` says how many of the targets are not `UNSEEN`, which do not count; without it all are.
    """
    total = F.cross_entropy(
        logits.float(), targets, ignore_index=UNSEEN, reduction="sum", label_smoothing=label_smoothing
    )
    return Loss(total, targets.numel() if count is None else count)
