"""Classify: one label for a whole text. Accuracy, F1, a table per class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import BadLines, Capacity, Columns, Examples, Labelled, Limit, read_labelled
from weft.decoding import DecodeConfig
from weft.metrics import Confusion, Reliability
from weft.models import CLASSIFIERS, Bag, BagConfig, Classifier, ClassifierSettings
from weft.nn import Packing
from weft.settings import Length, OneOf
from weft.tasks.baselines import text_baselines
from weft.tasks.choice import choose_bag, describe_choice, fill_bag
from weft.tasks.labels import ClassScores, collect_labels, label_columns, require_classes
from weft.tasks.length import passes
from weft.tasks.results import Prediction
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.shift import lay
from weft.tasks.states import pad_ids
from weft.tasks.tables import ColumnSetting, TableData
from weft.tasks.task import UNSEEN, Baselines, Batch, Codec, Loss, Rows, Task, cross_entropy
from weft.text import EOS, TextConfig, Tokenizer, word_defaults


class LabelledData(TableData):
    """Texts with a label: TSV, CSV, JSON, or a folder with a file or a folder per label."""

    text: ColumnSetting = "text"
    """The text's column: a name, a JSON path, a number from 0, or several to be joined."""
    label: ColumnSetting = "label"
    """The label's column."""
    max_length: Length = 400
    """The greatest number of tokens of a training text."""
    overlong: Literal["error", "truncate", "drop"] = "truncate"
    """The treatment of a longer training text."""


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """tokens (B, T) with an end token and lengths (B), or packed; labels (B)."""

    tokens: Tensor
    lengths: Tensor | Packing
    labels: Tensor


@dataclass(frozen=True)
class Classification(Prediction):
    """The likeliest label and the probability of each."""

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]

    def __str__(self) -> str:
        return self.label

    def record(self) -> Tree:
        return {
            "text": self.text,
            "label": self.label,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }

    def line(self, *, probabilities: bool = False) -> str:
        if not probabilities:
            return self.label
        return "\t".join(f"{label}\t{share:.4g}" for label, share in self.probabilities.items())

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        each = {f"probability_{label}": share for label, share in self.probabilities.items()} if probabilities else {}
        return {name: self.label, "probability": self.probability, **each}


MODEL = OneOf(CLASSIFIERS)

FEW_TEXTS, LONG_CHARACTERS = 10_000, 200
"""Fewer texts than this with more characters than this on average are learned by heart in a few epochs."""


class Classify(Task):
    """Labelled texts to a classifier."""

    name = "classify"
    summary = "labelled texts to a classifier"
    metric = "accuracy"
    metrics: tuple[str, ...] = ("accuracy", "f1", "loss")
    sections = Sections(LabelledData, TextConfig, Annotated[ClassifierSettings, MODEL])
    data: LabelledData
    pipeline_tag = "text-classification"
    label_column = "labels"
    calibrates = True

    def __init__(self, codec: Codec, data: LabelledData) -> None:
        super().__init__(codec, data)
        self.tokenizer: Tokenizer = codec.tokenizers[""]
        self.temperature = 1.0
        """The number that logits are divided by since training ended, for the calibration error before it."""

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        if choose_bag(facts, tree):
            return fill_bag(facts, tree)
        kind = MODEL.kind_of(written(tree, "model"))
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
            },
        }

    @staticmethod
    def describe_model(facts: Facts, tree: Mapping[str, Any]) -> str:
        return describe_choice(facts, tree)

    @staticmethod
    def read(path: str | list[str], data: LabelledData, bad: BadLines) -> Iterator[Labelled]:
        return read_labelled(path, text=data.text, label=data.label, layout=data.layout, bad=bad)

    @staticmethod
    def columns(data: LabelledData) -> Columns:
        return Columns(Labelled, data.text, data.label)

    @staticmethod
    def learn(records: Iterable[Labelled], text: TextConfig) -> Codec:
        labels = collect_labels((record.label,) for record in records if record.label is not None)
        require_classes(labels)
        return Codec({"": Tokenizer.learn((record.text for record in records), text)}, labels)

    @staticmethod
    def build(model: ClassifierSettings | BagConfig, codec: Codec) -> Classifier | Bag:
        if isinstance(model, BagConfig):
            return Bag(model, len(codec.labels), codec.tokenizers[""])
        return Classifier(model, len(codec.tokenizers[""]), len(codec.labels))

    def encode(self, records: Sequence[Labelled], limit: Limit | None) -> dict[str, list[list[int]]]:
        columns: dict[str, list[list[int]]] = {"tokens": [], "labels": []}
        for record, ids in zip(records, self.tokenizer.encode_many([record.text for record in records]), strict=True):
            for piece in limit.cut(ids, record.place) if limit else [ids]:
                columns["tokens"].append([*piece, EOS])
                columns["labels"].append([self.label(record)])
        return columns

    def label(self, record: Labelled) -> int:
        """The number of a record's label; `UNSEEN` without a label, or for one that is not in the training data."""
        return UNSEEN if record.label is None else self.codec.label_id(record.label)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> LabelledBatch:
        labels = examples.columns["labels"].join(rows).astype(np.int64)
        tokens, lengths = lay(examples.columns["tokens"], rows, packed=packed, capacity=capacity and capacity.side(0))
        count, reads = int((labels != UNSEEN).sum()), int(examples.columns["tokens"].lengths[np.asarray(rows)].sum())
        if isinstance(lengths, Packing):
            labels = np.pad(labels, (0, lengths.count - len(labels)), constant_values=UNSEEN)
        return LabelledBatch(count, tokens, lengths, torch.from_numpy(labels), reads=reads)

    def loss(self, model: nn.Module, batch: LabelledBatch, *, label_smoothing: float = 0.0) -> Loss:
        logits = model(batch.tokens, batch.lengths)
        return cross_entropy(logits, batch.labels, count=batch.count, label_smoothing=label_smoothing)

    def scores(self) -> ClassScores:
        reliability = {"calibration_error": Reliability()}
        if self.temperature != 1.0:
            reliability["calibration_error_before"] = Reliability(self.temperature)
        return ClassScores(Confusion(self.codec.labels), reliability=reliability)

    def measure(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        scores: ClassScores,
        *,
        records: Sequence[Labelled],
    ) -> None:
        logits = model(batch.tokens, batch.lengths)
        scores.add(logits, batch.labels)
        scores.unseen.update(record.label for record in records if record.label and self.label(record) == UNSEEN)

    def labelled_logits(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        return model(batch.tokens, batch.lengths), batch.labels

    def set_temperature(self, model: nn.Module, temperature: float) -> None:
        assert isinstance(model, Classifier | Bag)
        model.divide_logits(temperature)
        self.temperature *= temperature

    def baselines(
        self, train: Iterable[Labelled], parts: Mapping[str, Sequence[Labelled]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        return text_baselines(self.codec, train, parts, bag=not isinstance(model, Bag), seed=seed)

    def predict(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        *,
        records: Sequence[Labelled],
        decode: DecodeConfig,
    ) -> list[Classification]:
        answers = []
        for record, row in zip(records, model(batch.tokens, batch.lengths).float().softmax(-1).tolist(), strict=True):
            by_label = dict(sorted(zip(self.codec.labels, row, strict=True), key=lambda item: -item[1]))
            label, probability = next(iter(by_label.items()))
            answers.append(Classification(record.text, label, probability, by_label))
        return answers

    def states(self, model: nn.Module, records: Sequence[Labelled]) -> Tensor:
        if not isinstance(model, Classifier):
            return super().states(model, records)
        states: Tensor = model.encoder(*self.padded(model, records)).states
        return states

    def sentence_vectors(self, model: nn.Module, records: Sequence[Labelled]) -> Tensor:
        if not isinstance(model, Classifier):
            return super().sentence_vectors(model, records)
        return model.pool(*self.padded(model, records))

    def padded(self, model: Classifier, records: Sequence[Labelled]) -> tuple[Tensor, Tensor]:
        """The texts as tokens (B, T) with an end token, and lengths (B), on the device of the model."""
        rows = self.tokenizer.encode_many([record.text for record in records])
        return pad_ids([[*row, EOS] for row in rows], next(model.parameters()).device)

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return label_columns(self.codec.labels, name, probabilities=probabilities)
