"""Classify: one label for a whole text, or several at once. Accuracy, F1, exact matches, a table per class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from weft.data import Capacity, Columns, Examples, Labelled, ManyLabelled, labels_of
from weft.decoding import DecodeConfig
from weft.models import CLASSIFIERS, Bag, Classifier, ScoringSettings
from weft.nn import Packing
from weft.settings import OneOf, Unread
from weft.tasks.baselines import text_baselines
from weft.tasks.choice import choose_bag, describe_choice, fill_bag
from weft.tasks.deciding import Classification, Deciding, OneLabel, thresholds_of
from weft.tasks.labels import collect_labels, count_labels, require_classes
from weft.tasks.length import passes, started_rates
from weft.tasks.many_labels import ManyClassification, ManyLabels, many_baselines
from weft.tasks.results import Prediction
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.sequences import SequenceData, SequenceTask, inputs_of, learn_inputs, sequence_defaults
from weft.tasks.tables import LabelledData
from weft.tasks.task import UNSEEN, Baselines, Batch, Codec, Loss, Rows
from weft.text import FramedText, TextConfig, Tokenizer, word_defaults

__all__ = ["Classification", "Classify", "ClassifyData", "LabelledBatch", "LabelledData", "ManyClassification"]


class ClassifyData(SequenceData):
    """Inputs with a label, or with several."""

    labels: Literal["one", "many"] = "one"
    """One label for each input, or any number of them, also none."""
    separator: str = Field(",", min_length=1)
    """The text between several labels in one column; a JSON list needs none."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        if self.labels == "one":
            yield Unread("separator", 'separates nothing: labels = "one"', 'remove it, or set labels = "many"')


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """tokens (B, T) with an end token and lengths (B), or packed, or features (B, T, D); labels (B), of several labels
    (B, C) with 1 for each that is there; `others` (B) counts those that are not in the training data."""

    tokens: Tensor
    lengths: Tensor | Packing
    labels: Tensor
    others: Tensor | None = None


MODEL = OneOf(CLASSIFIERS)

FEW_TEXTS, LONG_CHARACTERS = 10_000, 200
"""Fewer texts than this with more characters than this on average are learned by heart in a few epochs."""


class Classify(SequenceTask):
    """Labelled texts to a classifier."""

    name = "classify"
    summary = "labelled texts to a classifier"
    metric = "accuracy"
    metrics: tuple[str, ...] = ("accuracy", "micro_f1", "f1", "exact", "loss")
    sections = Sections(ClassifyData, FramedText, Annotated[ScoringSettings, MODEL])
    data: ClassifyData
    pipeline_tag = "text-classification"
    label_column = answers = "labels"
    calibrates = True
    weighs_labels = True

    def __init__(self, codec: Codec, data: ClassifyData) -> None:
        super().__init__(codec, data)
        self.deciding: Deciding = ManyLabels(codec.labels) if data.labels == "many" else OneLabel(codec.labels)
        self.metric, self.metrics = self.deciding.metric, self.deciding.metrics
        self.many_labels = data.labels == "many"
        self.temperature = 1.0
        """The number that logits are divided by since training ended, for the calibration error before it."""

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        if choose_bag(facts, tree):
            return fill_bag(facts, tree)
        kind = MODEL.kind_of(written(tree, "model"))
        if facts.width:
            return sequence_defaults(facts, tree, kind)
        mean = facts.characters / max(1, facts.examples)
        # Names and other single words are spelled; anything longer is read word by word.
        text = {"kind": "char"} if mean < 16 else {**word_defaults(facts.characters), "lowercase": True}
        models: dict[str, Tree] = {
            "rnn": {"embedding": 64 if mean < 16 else 128, "hidden": 128, "dropout": 0.4},
            "transformer": {"width": 128, "layers": 2, "dropout": 0.2},
        }
        if facts.examples < FEW_TEXTS and mean >= LONG_CHARACTERS:
            models["rnn"] |= {"dropout": 0.5, "word_dropout": 0.3}
        batch = 1024 if facts.characters < 2_000_000 else 4096
        tokens = facts.examples * (1 + (mean if mean < 16 else mean / 6))
        return {
            "text": text,
            "model": models.get(kind, {}),
            "train": {
                "epochs": passes(tree, tokens, batch, epochs=160_000 / facts.examples, between=(8, 20), updates=300),
                "batch_tokens": batch,
                "rate": 2e-3 if kind == "rnn" else 1e-3,
                **started_rates(tree),
            },
        }

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        return cls.metric if cls.metric in measured else ManyLabels.metric

    @staticmethod
    def describe_model(facts: Facts, tree: Mapping[str, Any]) -> str:
        return describe_choice(facts, tree)

    @staticmethod
    def columns(data: ClassifyData) -> Columns:
        return data.columns(ManyLabelled if data.labels == "many" else Labelled, separator=data.separator)

    @classmethod
    def learn_with(cls, records: Iterable[Any], text: TextConfig, known: Mapping[str, Tokenizer]) -> Codec:
        labels, kind = collect_labels(map(labels_of, records)), type(next(iter(records), None))
        require_classes(labels, least=1 if kind is ManyLabelled else 2)
        return replace(learn_inputs(records, text, known), labels=labels)

    @staticmethod
    def build(model: ScoringSettings, codec: Codec) -> Classifier | Bag:
        return model.build_classifier(inputs_of(codec), len(codec.labels))

    def answer(self, record: Any) -> list[int]:
        """The numbers of a record's labels; `UNSEEN` for one that is not in the training data, or where a single label
        is missing."""
        numbers = [self.codec.label_id(label) for label in labels_of(record)]
        return numbers or ([] if self.data.labels == "many" else [UNSEEN])

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> LabelledBatch:
        tokens, lengths, reads = self.inputs(examples, rows, packed=packed, capacity=capacity)
        size = lengths.count if isinstance(lengths, Packing) else len(rows)
        labels, others, counted = self.deciding.targets(examples.columns["labels"], rows, size)
        return LabelledBatch(counted, tokens, lengths, labels, others, reads=reads)

    def loss(self, model: nn.Module, batch: LabelledBatch, *, label_smoothing: float = 0.0) -> Loss:
        logits = model(batch.tokens, batch.lengths)
        return self.deciding.loss(logits, batch.labels, count=batch.count, label_smoothing=label_smoothing)

    def weigh(self, weights: Literal["balanced"] | Mapping[str, float], examples: Examples) -> None:
        self.deciding.weigh(weights, count_labels(self.codec, examples, "labels"), len(examples))
        self.label_weights = self.deciding.weights

    def scores(self) -> Any:
        return self.deciding.scores(self.temperature)

    def measure(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        scores: Any,
        *,
        records: Sequence[Any],
    ) -> None:
        logits = model(batch.tokens, batch.lengths)
        self.deciding.measure(scores, logits, batch.labels, batch.others, thresholds=thresholds_of(model))
        scores.unseen.update(
            label for record in records for label in labels_of(record) if self.codec.label_id(label) == UNSEEN
        )

    def labelled_logits(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        return model(batch.tokens, batch.lengths), batch.labels

    def choose_thresholds(self, model: nn.Module, logits: Tensor, labels: Tensor) -> Tree:
        thresholds = thresholds_of(model)
        if thresholds is None:
            return {}
        values, chosen = self.deciding.thresholds(logits, labels)
        thresholds.copy_(torch.from_numpy(values))
        default = [label for label, own in zip(self.codec.labels, chosen, strict=True) if not own]
        found = {"thresholds": dict(zip(self.codec.labels, thresholds.tolist(), strict=True))}
        return found | ({"default_thresholds": default} if default else {})

    def set_temperature(self, model: nn.Module, temperature: float) -> None:
        assert isinstance(model, Classifier | Bag)
        model.divide_logits(temperature)
        self.temperature *= temperature

    def baselines(
        self, train: Iterable[Any], parts: Mapping[str, Sequence[Any]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        bag = self.features is None and not isinstance(model, Bag)
        if self.data.pair is not None:
            train = map(joined, train)
            parts = {part: [*map(joined, records)] for part, records in parts.items()}
        if self.data.labels == "many":
            return many_baselines(self.codec, train, parts, bag=bag, seed=seed)
        return text_baselines(self.codec, train, parts, bag=bag, seed=seed)

    def predict(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        *,
        records: Sequence[Any],
        decode: DecodeConfig,
    ) -> Sequence[Prediction]:
        logits = model(batch.tokens, batch.lengths).float()
        return self.deciding.answers(logits, records, thresholds=thresholds_of(model))

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return self.deciding.columns(name, probabilities=probabilities)


def joined(record: Labelled | ManyLabelled) -> Labelled | ManyLabelled:
    """A pair of texts as one, for a model that knows no order."""
    return replace(record, text=record.key, second=None)
