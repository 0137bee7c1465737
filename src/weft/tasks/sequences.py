"""The input of tasks with one answer for a whole sequence: a text, two texts, or feature vectors.

a text      w_1 … w_T <eos>                          with other special tokens around it: see weft/text/frames.py
a pair      u_1 … u_S <sos> w_1 … w_T <eos>          <sos> marks where the second text begins
steps       x_1 … x_T, each D numbers, standardised by the mean and the scale of the training data
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn

from weft.data import (
    BadLines,
    Capacity,
    Columns,
    Examples,
    Limit,
    Ragged,
    Steps,
    read_answered,
)
from weft.data.limit import Overlong
from weft.data.ragged import Ids
from weft.data.records import WholeInput
from weft.errors import DataError
from weft.models import Classifier, SequenceInputs
from weft.nn import Packing
from weft.settings import Unread
from weft.tasks.features import FEATURES, FeatureTask, learn_features
from weft.tasks.length import passes, started_rates
from weft.tasks.sections import Facts, StackPlace, Tree
from weft.tasks.shift import lay
from weft.tasks.states import Located, locate
from weft.tasks.tables import ColumnSetting, LabelledData
from weft.tasks.task import Codec, Rows
from weft.text import FRAMES, SPECIALS, TextConfig, Tokenizer, frame_of, word_defaults


class SequenceData(LabelledData):
    """Inputs with one answer each: texts, pairs of texts, or sequences of feature vectors."""

    pair: ColumnSetting | None = None
    """The column of the second text, where an input is a pair of texts."""
    features: ColumnSetting | None = None
    """Feature vectors in the place of texts: a key of JSON, columns of a table with a row per step, or "*" for all."""
    sequence: ColumnSetting = "sequence"
    """The column that names the sequence of a row, in a TSV or CSV with a row per step."""

    def unread(self) -> Iterator[Unread]:
        if self.features is None:
            yield Unread("sequence", "groups no rows: the input is text", "remove it, or set features")
        else:
            cure = "remove one of the two"
            yield Unread("text", f"is not read beside features = {self.features!r}", cure)
            yield Unread("pair", f"is not read beside features = {self.features!r}", cure)

    def columns(self, record: type[Any], **more: Any) -> Columns:
        """The columns of a record of that type."""
        if self.features is not None:
            return Columns(record, self.features, self.label, steps=True, sequence=self.sequence, **more)
        return Columns(record, self.text, self.label, second=self.pair, **more)


class Inputs(NamedTuple):
    """Tokens (B, T) or features (B, T, D) and lengths (B), or packed; how many tokens or steps they are."""

    tokens: Tensor
    lengths: Tensor | Packing
    reads: int


class SequenceTask(FeatureTask):
    """A task whose records are a whole input with one answer."""

    data: Any
    answers: ClassVar[str]
    """The column of the answers in encoded examples."""

    def __init__(self, codec: Codec, data: Any) -> None:
        super().__init__(codec, data)
        self.tokenizer: Tokenizer | None = codec.tokenizers.get("")
        self.frame = FRAMES["end"] if self.tokenizer is None else frame_of(self.tokenizer.config)

    @classmethod
    def row_tokens(cls, config: Any) -> int:
        tokens: int = config.data.max_length + frame_of(config.text).marks(pairs=config.data.pair is not None)
        return tokens

    @classmethod
    def read(cls, path: str | list[str], data: Any, bad: BadLines) -> Iterator[Any]:
        return read_answered(path, cls.columns(data), layout=data.layout, bad=bad)

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        return {"encoder": StackPlace()}

    @classmethod
    def learn(cls, records: Iterable[Any], text: TextConfig) -> Codec:
        return cls.learn_with(records, text, {})

    def evaluation_limit(self, positions: int | None) -> Limit | None:
        if positions is None:
            return None
        marks = 0 if self.features is not None else self.frame.marks(pairs=self.data.pair is not None)
        overlong: Overlong = "truncate" if self.data.overlong == "truncate" else "error"
        return Limit(positions - marks, overlong, positions=positions)

    @abstractmethod
    def answer(self, record: Any) -> Ids:
        """The answer of a record as numbers of its column."""

    def encode(self, records: Sequence[Any], limit: Limit | None) -> dict[str, list[Ids]]:
        columns: dict[str, list[Ids]] = {self.column: [], self.answers: []}
        for record, rows in zip(records, self._encode_inputs(records, limit), strict=True):
            for row in rows:
                columns[self.column].append(row)
                columns[self.answers].append(self.answer(record))
        return columns

    def _encode_inputs(self, records: Sequence[WholeInput], limit: Limit | None) -> Iterator[list[Ids]]:
        """The rows of each record."""
        if self.features is not None:
            for record in records:
                yield self._encode_steps(record, limit)
            return
        assert self.tokenizer is not None
        firsts = self.tokenizer.encode_many([record.text for record in records])
        if self.data.pair is None:
            for record, ids in zip(records, firsts, strict=True):
                pieces = limit.cut(ids, record.place) if limit else [ids]
                yield [self.frame.around(piece) for piece in pieces]
            return
        seconds = self.tokenizer.encode_many([record.second or "" for record in records])
        for record, first, second in zip(records, firsts, seconds, strict=True):
            pairs = limit.cut_pair(first, second, record.place) if limit else [(first, second)]
            yield [self.frame.pair(one, other) for one, other in pairs]

    def _encode_steps(self, record: WholeInput, limit: Limit | None) -> list[Ids]:
        numbers: Any = self.standardise(record)
        pieces: list[Any] = limit.cut(numbers, record.place) if limit else [numbers]
        return [piece.reshape(-1) for piece in pieces]

    def inputs(self, examples: Examples, rows: Rows, *, packed: bool, capacity: Capacity | None) -> Inputs:
        """The inputs of these rows as tensors."""
        if self.features is not None:
            features, lengths = self.pad_features(examples, rows)
            return Inputs(features, lengths, int(lengths.sum()))
        column = examples.columns[self.column]
        tokens, laid = lay(column, rows, packed=packed, capacity=capacity and capacity.side(0))
        return Inputs(tokens, laid, int(column.lengths[np.asarray(rows)].sum()))

    def tokenizer_of(self, part: str) -> Tokenizer:
        assert self.tokenizer is not None
        return self.tokenizer

    def locate(self, record: WholeInput) -> Located:
        if record.steps is not None:
            return Located.of_words(tuple(map(str, range(len(record.steps.array)))))
        first = locate(self.tokenizer_of(""), record.text)
        if record.second is None:
            return first
        marks = [SPECIALS[token] for token in self.frame.between]
        return first.joined(marks, locate(self.tokenizer_of(""), record.second))

    @property
    def leading_tokens(self) -> int:
        return len(self.frame.start) if self.features is None else 0

    def states(self, model: nn.Module, records: Sequence[Any]) -> Tensor:
        if not isinstance(model, Classifier):
            return super().states(model, records)
        states: Tensor = model.encoder(*self._laid(model, records)).states
        return states[:, self.leading_tokens :]

    def sentence_vectors(self, model: nn.Module, records: Sequence[Any]) -> Tensor:
        if not isinstance(model, Classifier):
            return super().sentence_vectors(model, records)
        return model.pool(*self._laid(model, records))

    def _laid(self, model: Classifier, records: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """The inputs as padded tokens or features, and their lengths (B), on the device of the model."""
        columns = {name: Ragged.from_lists(rows) for name, rows in self.encode(records, None).items()}
        found = self.inputs(Examples(columns, self.cost(columns)), range(len(records)), packed=False, capacity=None)
        device = next(model.parameters()).device
        assert isinstance(found.lengths, Tensor)
        return found.tokens.to(device), found.lengths.to(device)

    def is_one_input(self, inputs: Any) -> bool:
        pair = isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(text, str) for text in inputs)
        return super().is_one_input(inputs) or (self.data.pair is not None and pair)

    def record(self, source: Any) -> Any:
        """An input to predict for: a text, two texts (or one with a tab between them), or steps."""
        kind: Any = self.columns(self.data).record
        if isinstance(source, Steps):
            return kind("", steps=source)
        if self.features is not None:
            raise DataError(f"{source!r:.40} is no sequence of feature vectors", cure="give a list of lists of numbers")
        if self.data.pair is None:
            return kind(str(source))
        parts = source.split("\t") if isinstance(source, str) else list(source)
        if len(parts) != 2 or not all(part.strip() for part in parts):
            what = f'"{source!s:.40}" is not a pair of texts'
            raise DataError(what, cure="give two texts: (first, second), or in a line with one tab between them")
        return kind(parts[0].strip(), second=parts[1].strip())


def learn_inputs(records: Iterable[Any], text: TextConfig, known: Mapping[str, Tokenizer]) -> Codec:
    """The tokenizer of texts, unless it is known, or the statistics of features; answers are the task's own."""
    if (features := learn_features(records)) is not None:
        return Codec({}, (), {FEATURES: features})
    return Codec({"": known.get("") or Tokenizer.learn(_each_text(records), text)})


def inputs_of(codec: Codec) -> SequenceInputs:
    """The inputs that a model is built for."""
    features = codec.statistics.get(FEATURES)
    if features is not None:
        return SequenceInputs(features=len(features.mean))
    return SequenceInputs(codec.tokenizers[""])


def _each_text(records: Iterable[WholeInput]) -> Iterator[str]:
    for record in records:
        yield record.text
        if record.second is not None:
            yield record.second


class Answered(Protocol):
    """The input that a prediction is for."""

    @property
    def text(self) -> str: ...

    @property
    def second(self) -> str | None: ...

    @property
    def steps(self) -> int | None: ...


def describe_input(answer: Answered) -> dict[str, Any]:
    """The input of a prediction for `Prediction.record`."""
    if answer.steps is not None:
        return {"steps": answer.steps}
    return {"text": answer.text} | ({} if answer.second is None else {"second": answer.second})


def sequence_defaults(facts: Facts, tree: Mapping[str, Any], kind: str) -> Tree:
    """Settings for texts of this size, or for feature vectors."""
    mean = facts.characters / max(1, facts.examples)
    # Names and other single words are spelled; anything longer is read word by word.
    text = {"kind": "char"} if mean < 16 else {**word_defaults(facts.characters), "lowercase": True}
    tokens = facts.examples * (1 + (mean if mean < 16 else mean / 6))
    if facts.width:
        text, tokens = {"kind": "char"}, facts.characters / facts.width
    models: dict[str, Tree] = {
        "rnn": {"embedding": 64 if facts.width or mean < 16 else 128, "hidden": 128, "dropout": 0.3},
        "transformer": {"width": 128, "layers": 2, "dropout": 0.2},
    }
    batch = 1024 if tokens < 400_000 else 4096
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
