"""The contract of a task: records → examples → batch → loss, predictions, scores. Each task has a file beside this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data import (
    BadLines,
    Capacity,
    Columns,
    Examples,
    Limit,
    Ragged,
    Record,
)
from weft.data.ragged import Ids
from weft.decoding import DecodeConfig
from weft.errors import ConfigError
from weft.metrics import LossTally
from weft.settings import TableError
from weft.tasks.batch import Batch, Origin
from weft.tasks.calibration import calibrate_logits
from weft.tasks.codec import UNSEEN, Codec
from weft.tasks.generation import Question, generate
from weft.tasks.lessons import WithLessons
from weft.tasks.loss import Loss, cross_entropy
from weft.tasks.records import WithRecords
from weft.tasks.results import Prediction, ScoredText, Scores
from weft.tasks.sections import Facts, Sections, StackPlace, Tree
from weft.tasks.states import WithStates
from weft.text import TextConfig, Tokenizer

__all__ = ["UNSEEN", "Baselines", "Batch", "Codec", "Loss", "Origin", "Rows", "Task", "cross_entropy"]

Rows = Sequence[int] | NDArray[np.int64]
"""Numbers of examples."""

Baselines = dict[str, dict[str, float]]
"""The metrics of each simple model by its name."""


class Task(WithRecords, WithStates, WithLessons, ABC):
    """A task owns its data formats, its defaults, its network, its loss and its metrics.

    A new task has the attributes without a value and the abstract methods. The other attributes and methods have plain
    defaults, for a task that reads texts and writes none.
    """

    name: str
    summary: str
    metric: str
    """The metric that chooses a model."""
    metrics: tuple[str, ...]
    """The metrics that it can measure: of the class with any data, of an object with the labels that it has."""
    sections: Sections
    data: Any
    """The `[data]` section."""

    lower_is_better: tuple[str, ...] = ("loss", "perplexity", "bits_per_character", "wer", "cer")
    caches: bool = True
    """Whether the encoded data of large files is cached: a file must hold all that its examples are made of."""
    files: tuple[str, str, str] = ("train.tsv", "valid.tsv", "test.tsv")
    """Files for training, validation and test in the config file that `weft new` writes."""
    pipeline_tag: str | None = None
    """The task's name on model hubs, for the model card."""
    label_column: str | None = None
    """The column of encoded examples that holds label numbers, of a task that chooses from the labels of its data."""
    writes: bool = False
    """Whether its models write text: there is a section `[decode]`, and the task has `question`."""
    continues: bool = False
    """Whether the texts that it writes continue their inputs."""
    answer_options: Mapping[str, Any] = MappingProxyType({})
    """The settings of `[decode]` that `predict` of a task reads which writes no text, with their defaults."""
    measures_answers: bool = False
    """Whether metrics depend on the answers of `predict`, which `add_answers` then adds to the scores."""
    scores_texts: bool = False
    """Whether its models give a probability to any text, or to the tags of any, with `score`."""
    has_baselines: bool = False
    """Whether `baselines` fits simple models, for which the training records are kept; a task with labels has them."""
    weighs_labels: bool = False
    """Whether errors may weigh more for some labels than for others (`train.class_weights`), with `weigh`."""
    label_weights: Tensor | None = None
    """The weights that `weigh` has set, for a model that fits itself."""
    many_labels: bool = False
    """Whether an example may have any number of labels."""
    smooths_labels: bool = True
    """Whether `loss` reads `label_smoothing`."""
    rows_overlap: bool = False
    """Whether rows of one record (`record_of_row`) share what they are measured on: a bootstrap draws them together."""
    calibrates: bool = False
    """Whether its probabilities are calibrated on validation data, with `labelled_logits` and `set_temperature`."""

    def __init__(self, codec: Codec, data: Any) -> None:
        self.codec, self.data = codec, data

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        """Settings that suit training data of this size and the kinds of network in the user's tree, which overrides
        them. They include `text.kind` and the epochs, batch_tokens and rate of `train`."""
        return {"text": {"kind": "char"}, "train": {"epochs": 20, "batch_tokens": 1024, "rate": 1e-3}}

    @staticmethod
    def reason(facts: Facts) -> str:
        """Why the defaults choose a model by their metric, where that depends on the data; else empty."""
        return ""

    @staticmethod
    def describe_model(facts: Facts, tree: Mapping[str, Any]) -> str:
        """A note where the kind of model depends on the data and the configuration names none; else empty."""
        return ""

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        """The metric that chooses a model where the configuration names none, given the metrics that were measured."""
        return cls.metric

    def measured_on(self, records: Iterable[Any]) -> Sequence[str]:
        """The metrics that are measured on these records, where that depends on what they are."""
        return self.metrics

    @staticmethod
    @abstractmethod
    def read(path: str | list[str], data: Any, bad: BadLines) -> Iterator[Any]:
        """The records of a file."""

    @staticmethod
    @abstractmethod
    def columns(data: Any) -> Columns:
        """The columns of a table, or of examples given in Python, that a record is made of, and the type of record."""

    @classmethod
    def row_tokens(cls, config: Any) -> int:
        """The most tokens that a network reads of an example of `data.max_length`."""
        tokens: int = config.data.max_length + cls.sections.marks
        return tokens

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        """An error for each setting that does not go together with those of another section."""
        if cls.writes and config.decode.copy_unknown:
            what = f"{cls.name} has no source to copy from"
            yield TableError(what, where="decode.copy_unknown = true", cure="remove it")

    @staticmethod
    def roles(text: Any) -> dict[str, TextConfig]:
        """The tokenizers of the task by their role, each with its settings."""
        return {"": text}

    @classmethod
    def tokenizer_roles(cls, text: Any, data: Any) -> dict[str, TextConfig]:
        """The roles of a run with these sections; none where the input is not text."""
        return cls.roles(text)

    @classmethod
    def statistic_sizes(cls, data: Any) -> dict[str, int | None]:
        """The names of the statistics of a run, with how many numbers each has, where that is known."""
        return {}

    @staticmethod
    @abstractmethod
    def learn(records: Iterable[Any], text: Any) -> Codec:
        """Tokenizers and labels from the training records."""

    @classmethod
    def learn_with(cls, records: Iterable[Any], text: Any, known: Mapping[str, Tokenizer]) -> Codec:
        """`learn`, with tokenizers of another run in some roles (`stacks`)."""
        raise NotImplementedError

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        """The encoder and the decoder of its models by their names, given a configuration as plain tables; none where
        models neither start from another run nor are the start of one."""
        return {}

    @staticmethod
    def build(model: Any, codec: Codec) -> nn.Module:
        """The network, with sizes known only now; a task whose sizes depend on `[data]` too has `network` instead."""
        raise NotImplementedError

    @classmethod
    def network(cls, config: Any, codec: Codec) -> nn.Module:
        """The network of a whole configuration."""
        return cls.build(config.model, codec)

    @staticmethod
    def gather(records: Iterable[Any], data: Any, *, origins: int | None = None) -> Iterable[Any]:
        """The records of an evaluation with these settings of `[data]`: those of a file, or fewer where several have
        one answer, or more where each has several. `origins` counts the answers of each (`rolls_origin`)."""
        return records

    def windows(self, columns: Mapping[str, Ragged]) -> Mapping[str, Ragged]:
        """The rows of training examples, given the encoded records: the same, or views of parts of them."""
        return columns

    def limit(self, *, training: bool) -> Limit | None:
        """The greatest length of an example and the treatment of longer ones; None keeps all as they are."""
        return Limit(self.data.max_length, self.data.overlong) if training else None

    def evaluation_limit(self, positions: int | None) -> Limit | None:
        """`limit` for an evaluation of a model that reads so many tokens of a row at most, or any number of them."""
        return self.limit(training=False)

    @abstractmethod
    def encode(self, records: Sequence[Any], limit: Limit | None) -> Mapping[str, Sequence[Ids]]:
        """Columns of token ids, or of float32 numbers; a limit may drop a record or cut it into several rows."""

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        """The length of each example in a padded batch (N,); where it has two sides, of each (N, 2)."""
        lengths: NDArray[np.int64] = columns["tokens"].lengths
        return lengths

    def record_of_row(self, examples: Examples) -> NDArray[np.int64]:
        """The number of the record that each row comes from (N,), where `limit` cuts records in evaluation."""
        return np.arange(len(examples))

    @abstractmethod
    def collate(self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None) -> Any:
        """The batch of these rows. It is packed, without padding, only for a model that `packs`, and then filled up to
        the capacity if one is given."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss:
        """The loss of a batch; padding never counts."""

    @abstractmethod
    def scores(self) -> Scores:
        """Running sums for `measure` to add to."""

    @abstractmethod
    def measure(self, model: nn.Module, batch: Any, scores: Any, *, records: Sequence[Any]) -> None:
        """Add a batch to the scores."""

    def measure_running(self, scores: Any, losses: Iterable[tuple[Loss, Any]], examples: Examples) -> None:
        """Add the losses of all batches of a running text to the scores (`DataConfig.running`)."""
        raise NotImplementedError

    def add_answers(self, scores: Any, records: Sequence[Any], answers: Sequence[Any]) -> None:
        """Add the answers to some records to the scores (`measures_answers`)."""
        raise NotImplementedError

    def record(self, source: Any) -> Record:
        """An input to predict for, as a record without its answer."""
        kind: Callable[[Any], Record] = self.columns(self.data).record  # its other parts may be left out
        return kind(str(source))

    def is_one_input(self, inputs: Any) -> bool:
        """Whether a value given to `Run.predict` is one input, and not several."""
        return isinstance(inputs, str | Mapping | Record)

    def with_language(self, record: Any, language: str) -> Record:
        """An input to be answered in that language; an error for a task without languages."""
        raise ConfigError(f"{self.name} has no languages", where=f"language = {language}", cure="leave it out")

    def predict(
        self, model: nn.Module, batch: Any, *, records: Sequence[Any], decode: DecodeConfig
    ) -> Sequence[Prediction]:
        """Answers for a batch, in its order; a task that `writes` needs only `question`."""
        return generate(self, model, batch, records=records, decode=decode)

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        """The columns of `Prediction.cells`; `name` is that of the answer itself."""
        return [name]

    def question(self, model: Any, batch: Any, *, records: Sequence[Any]) -> Question:
        """The start of a search for the texts of a batch (`writes`)."""
        raise NotImplementedError

    def source_tokens(self, model: Any, batch: Any) -> list[tuple[str, ...]] | None:
        """The tokens of each row that attention weights belong to; None where there is no source."""
        return None

    def source_grid(self, model: Any) -> tuple[int, int] | None:
        """The rows and columns in which the places of attention weights lie; None where they lie in a line."""
        return None

    def source_words(self, records: Sequence[Any]) -> list[tuple[str, ...]]:
        """The word of each input, as it is written there, at each place that attention weights belong to; empty where
        a place belongs to no word."""
        raise ConfigError(f"{self.name} has no source to copy from", where="copy_unknown", cure="leave it out")

    @staticmethod
    def read_to_score(path: str | list[str], data: Any, bad: BadLines) -> Iterator[Any]:
        """The records of a file whose texts are scored (`scores_texts`)."""
        raise NotImplementedError

    def record_to_score(self, item: Any) -> Record:
        """A text given in Python as a record to score; anything else is a DataError (`scores_texts`)."""
        raise NotImplementedError

    def score(
        self, model: nn.Module, batch: Any, *, records: Sequence[Any], candidates: int = 0
    ) -> Sequence[ScoredText]:
        """The probabilities of the texts of a batch (`scores_texts`), and the likeliest candidates at each place."""
        raise NotImplementedError

    def summarise_scored(self, tally: LossTally, count: int) -> dict[str, float]:
        """The numbers over so many texts that were scored, by their names, given the sums over all (`scores_texts`)."""
        return {
            "texts": count,
            "tokens": tally.count,
            "log_probability": -tally.total,
            "log_probability_per_token": -tally.loss,
            "perplexity": tally.perplexity,
            "vocabulary": len(self.codec.side("target")),
            "unknown_share": tally.unknown_share,
        }

    def calibrate(self, model: nn.Module, batches: Iterable[Any]) -> Tree:
        """Calibrate the model on batches of validation data; returns what the report says of it, or nothing."""
        return calibrate_logits(self, model, batches) if self.calibrates else {}

    def labelled_logits(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """logits (N, C) and labels (N) of a batch (`calibrates`)."""
        raise NotImplementedError

    def weigh(self, weights: Literal["balanced"] | Mapping[str, float], examples: Examples) -> None:
        """Weigh the errors of each label in `loss` from now on (`weighs_labels`)."""
        raise NotImplementedError

    def choose_thresholds(self, model: nn.Module, logits: Tensor, labels: Tensor) -> Tree:
        """Choose the decision thresholds of a model that has some, on logits and labels of `labelled_logits`; returns
        them, and the labels whose threshold stays as it was, for the report (`calibrates`)."""
        return {}

    def set_temperature(self, model: nn.Module, temperature: float) -> None:
        """Divide all logits of the model by the temperature from now on (`calibrates`)."""
        raise NotImplementedError

    def baselines(
        self, train: Iterable[Any], parts: Mapping[str, Sequence[Any]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        """The metrics of simple models of the training records on each part, without that of the trained model; the
        same for the same seed."""
        return {}
