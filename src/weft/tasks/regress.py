"""Regress: a number for a whole text, a pair of texts, or a sequence of feature vectors. MAE, RMSE, Spearman.

y' = (y - mean) / scale of the training data        loss = (z - y')²        answer = z · scale + mean
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import Capacity, Columns, Examples, Measured, Statistics
from weft.data.ragged import Ids, numbers_of
from weft.decoding import DecodeConfig
from weft.metrics import errors, spearman
from weft.models import REGRESSORS, Bag, Classifier, ScoringSettings, fit_number_bag
from weft.models.bag.config import NUMBER_RATE
from weft.nn import Packing
from weft.settings import OneOf
from weft.tasks.choice import choose_bag, describe_choice, fill_bag
from weft.tasks.results import Numbers, Prediction, Scores, show_number
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.sequences import SequenceData, SequenceTask, describe_input, inputs_of, learn_inputs, sequence_defaults
from weft.tasks.task import Baselines, Batch, Codec, Loss, Rows
from weft.text import FramedText, TextConfig, Tokenizer

TARGET = "target"
"""The name of the statistics of the numbers to predict."""

MODEL = OneOf(REGRESSORS)


@dataclass(frozen=True)
class MeasuredBatch(Batch):
    """tokens (B, T) with an end token and lengths (B), or packed, or features (B, T, D); standardised numbers (B), NaN
    where there is none."""

    tokens: Tensor
    lengths: Tensor | Packing
    numbers: Tensor


@dataclass(frozen=True)
class Regression(Prediction):
    """The number for an input."""

    text: str
    number: float
    second: str | None = None
    steps: int | None = None

    def __str__(self) -> str:
        return show_number(self.number)

    def record(self) -> Tree:
        return describe_input(self) | {"number": self.number}

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        return {name: self.number}


@dataclass
class NumberScores(Scores):
    """Sums of the errors; gold and predicted numbers for their rank correlation, which is no function of sums."""

    gold: list[float] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    scale: float = 1.0
    """The unit of the loss."""

    def add(self, gold: Sequence[float], predicted: Sequence[float]) -> None:
        self.gold += gold
        self.predicted += predicted

    def merge(self, other: NumberScores) -> None:
        self.add(other.gold, other.predicted)

    def sums(self) -> Numbers:
        """Absolute errors, squared errors and their count; then the sums of gold and predicted numbers, which for a
        single example are the numbers themselves."""
        gold, predicted = np.array(self.gold), np.array(self.predicted)
        distances = predicted - gold
        parts = [np.abs(distances).sum(), np.square(distances).sum(), len(gold), gold.sum(), predicted.sum()]
        return np.array(parts, dtype=np.float64)

    def score(self, sums: Numbers) -> dict[str, float]:
        distance, squares, count = map(float, sums[:3])
        if not count:
            return {}
        mean = squares / count
        return {"mae": distance / count, "rmse": math.sqrt(mean), "loss": mean / self.scale**2}

    def score_rows(self, rows: Numbers) -> dict[str, float]:
        found = self.score(rows.sum(0))
        return {**found, "spearman": spearman(rows[:, 3], rows[:, 4])}

    def metrics(self) -> dict[str, float]:
        found = self.score(self.sums())
        return found and {**found, "spearman": spearman(self.gold, self.predicted)}

    def details(self) -> Tree:
        return {"count": len(self.gold), "count_of": "examples"}


class Regress(SequenceTask):
    """Texts with a number each to a model that predicts it."""

    name = "regress"
    summary = "texts with a number each to a model that predicts it"
    metric = "rmse"
    metrics: tuple[str, ...] = ("mae", "rmse", "spearman", "loss")
    lower_is_better = ("mae", "rmse", "loss")
    sections = Sections(SequenceData, FramedText, Annotated[ScoringSettings, MODEL])
    data: SequenceData
    answers = "numbers"
    has_baselines = True
    smooths_labels = False

    def __init__(self, codec: Codec, data: SequenceData) -> None:
        super().__init__(codec, data)
        self.target: Statistics = codec.statistics[TARGET]

    @classmethod
    def statistic_sizes(cls, data: SequenceData) -> dict[str, int | None]:
        return {**super().statistic_sizes(data), TARGET: 1}

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        if choose_bag(facts, tree):
            return fill_bag(facts, tree, rate=NUMBER_RATE)
        return sequence_defaults(facts, tree, MODEL.kind_of(written(tree, "model")))

    @staticmethod
    def describe_model(facts: Facts, tree: Mapping[str, Any]) -> str:
        return describe_choice(facts, tree)

    @staticmethod
    def columns(data: SequenceData) -> Columns:
        return data.columns(Measured)

    @classmethod
    def learn_with(cls, records: Iterable[Measured], text: TextConfig, known: Mapping[str, Tokenizer]) -> Codec:
        found = learn_inputs(records, text, known)
        numbers = (np.array([[record.number]]) for record in records if record.number is not None)
        return replace(found, statistics={**found.statistics, TARGET: Statistics.of(numbers)})

    @staticmethod
    def build(model: ScoringSettings, codec: Codec) -> Classifier | Bag:
        return model.build_classifier(inputs_of(codec), 1)

    def answer(self, record: Measured) -> Ids:
        number = math.nan if record.number is None else record.number
        return self.target.standardise(np.array([number]))

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> MeasuredBatch:
        tokens, lengths, reads = self.inputs(examples, rows, packed=packed, capacity=capacity)
        size = lengths.count if isinstance(lengths, Packing) else len(rows)
        numbers = numbers_of(examples.columns["numbers"].join(rows))
        numbers = np.pad(numbers, (0, size - len(numbers)), constant_values=math.nan)
        return MeasuredBatch(len(rows), tokens, lengths, torch.from_numpy(numbers), reads=reads)

    def loss(self, model: nn.Module, batch: MeasuredBatch, *, label_smoothing: float = 0.0) -> Loss:
        real = ~batch.numbers.isnan()
        distances = model(batch.tokens, batch.lengths)[:, 0].float() - batch.numbers.nan_to_num()
        return Loss((distances.square() * real).sum(), batch.count)

    def numbers(self, model: nn.Module, batch: MeasuredBatch) -> list[float]:
        """The predicted numbers (B), in their own unit."""
        found = model(batch.tokens, batch.lengths)[:, :1].double().cpu().numpy()
        return self.target.restore(found)[:, 0].tolist()  # type: ignore[no-any-return]

    def scores(self) -> NumberScores:
        return NumberScores(scale=self.target.scale[0])

    def measure(
        self, model: nn.Module, batch: MeasuredBatch, scores: NumberScores, *, records: Sequence[Measured]
    ) -> None:
        scores.add([record.number or 0.0 for record in records], self.numbers(model, batch))

    def baselines(
        self, train: Iterable[Measured], parts: Mapping[str, Sequence[Measured]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        """`mean` and `median` of the training data for every input. `bag`: a bag of n-grams, unless it is the model
        itself or the input is not text."""
        bag = None
        if self.features is None and not isinstance(model, Bag):
            bag = fit_number_bag(((record.key, self.answer(record)[0]) for record in train), seed=seed)
        numbers = [record.number or 0.0 for record in train]
        constants = {"mean": float(np.mean(numbers)), "median": float(np.median(numbers))}
        found: dict[str, Baselines] = {}
        for part, records in parts.items():
            gold = [record.number or 0.0 for record in records]
            found[part] = {name: errors(gold, [number] * len(gold)) for name, number in constants.items()}
            if bag is not None:
                guessed = self.target.restore(bag.numbers([record.key for record in records])[:, None])[:, 0]
                found[part]["bag"] = errors(gold, guessed.tolist()) | {"examples": bag.fitted}
        return found

    def predict(
        self, model: nn.Module, batch: MeasuredBatch, *, records: Sequence[Measured], decode: DecodeConfig
    ) -> list[Regression]:
        return [
            Regression(record.text, number, record.second, None if record.steps is None else len(record.steps))
            for record, number in zip(records, self.numbers(model, batch), strict=True)
        ]
