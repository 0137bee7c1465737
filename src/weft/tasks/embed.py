"""Embed: a vector for each word, learned from plain text. Neighbours and analogies, rank correlation with people's
judgements of similarity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from weft import limits
from weft.data import (
    Analogy,
    BadLines,
    Capacity,
    Columns,
    Examples,
    Limit,
    Similarity,
    Text,
    pad,
    read_stream,
    read_texts,
    read_with_tests,
)
from weft.decoding import DecodeConfig
from weft.errors import DataError
from weft.models.vectors import (
    VECTORS,
    Neighbour,
    VectorSettings,
    WordVectors,
    heldout_loss,
    solve_analogies,
)
from weft.settings import OneOf
from weft.tasks.results import Prediction
from weft.tasks.sections import DataConfig, Facts, Sections, Tree, written
from weft.tasks.task import Batch, Codec, Loss, Rows, Task
from weft.tasks.vector_scores import VectorScores
from weft.tasks.word_tables import WordTable
from weft.text import UNK, TextConfig, Tokenizer, word_defaults

ROW_WORDS: Final = 1000
"""Words of a training row: a longer text is cut, and the words at the cut are not learned together."""

NEIGHBOURS: Final = 10
"""Neighbours of an answer."""

MUCH_TEXT, SOME_TEXT = 1_000_000, 100_000
"""Characters of a training text. From the first on, words that occur fewer than five times have no vector and frequent
words are left out as in word2vec; below the second no occurrence is left out."""


class VectorData(DataConfig):
    """Plain text. Files for validation and test may also be word similarities and analogies."""

    unit: Literal["line", "stream"] = "line"
    """line: words of different lines are not learned together; stream: the file is one text."""

    @property
    def running(self) -> bool:
        return self.unit == "stream"


class VectorText(TextConfig):
    """Words."""

    kind: Literal["word"] = "word"
    """Words."""


@dataclass(frozen=True)
class VectorBatch(Batch):
    """tokens (B, T) and lengths (B); words that are not in the vocabulary are left out."""

    tokens: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Neighbours(Prediction):
    """The words nearest to a word, or to a sum and difference of words; `unknown` are those without a vector."""

    text: str
    neighbours: tuple[Neighbour, ...]
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.line()

    def record(self) -> Tree:
        return {
            "text": self.text,
            "neighbours": [found._asdict() for found in self.neighbours],
            "unknown": list(self.unknown),
        }

    def line(self, *, probabilities: bool = False) -> str:
        return "\t".join(f"{word} {similarity:.3f}" for word, similarity in self.neighbours)


MODEL = OneOf(VECTORS)


class Embed(Task):
    """Plain text to word vectors."""

    name = "embed"
    summary = "plain text to word vectors (skip-gram, CBOW)"
    metric = "loss"
    metrics: tuple[str, ...] = ("loss", "spearman", "accuracy", "coverage")
    sections = Sections(VectorData, VectorText, Annotated[VectorSettings, MODEL], marks=0)
    data: VectorData
    files = ("train.txt", "valid.txt", "similarities.tsv")
    pipeline_tag = "feature-extraction"

    def __init__(self, codec: Codec, data: VectorData) -> None:
        super().__init__(codec, data)
        self.tokenizer: Tokenizer = codec.tokenizers[""]

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        kind = MODEL.kind_of(written(tree, "model"))
        text = {**word_defaults(facts.characters), "lowercase": True}
        if facts.characters >= MUCH_TEXT:
            text["min_count"] = 5
        words = max(1.0, facts.characters / 6)
        train = {
            "epochs": round(min(50, max(5, 5e6 / words))),
            "batch_tokens": 100_000,
            "rate": 0.05 if kind == "cbow" else 0.025,
        }
        # In a short text every word is frequent.
        subsample = 1e-3 if facts.characters >= MUCH_TEXT else 1e-2 if facts.characters >= SOME_TEXT else 0.0
        return {"text": text, "model": {"subsample": subsample}, "train": train}

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        return next((name for name in ("loss", "spearman", "accuracy") if name in measured), cls.metric)

    def measured_on(self, records: Iterable[Any]) -> list[str]:
        names = {Text: ("loss",), Similarity: ("spearman", "coverage"), Analogy: ("accuracy", "coverage")}
        found = {name for kind in {type(record) for record in records} for name in names[kind]}
        return [name for name in self.metrics if name in found]

    @staticmethod
    def read(path: str | list[str], data: VectorData, bad: BadLines) -> Iterator[Any]:
        texts = read_texts if data.unit == "line" else read_stream
        return read_with_tests(path, bad, lambda name: texts(name, bad=bad))

    @staticmethod
    def columns(data: VectorData) -> Columns:
        return Columns(Text, "text", joined=data.unit == "stream", lines=True, prediction="neighbours")

    @staticmethod
    def learn(records: Iterable[Any], text: VectorText) -> Codec:
        return Codec({"": Tokenizer.learn((text_of(record) for record in records), text)})

    @staticmethod
    def build(model: VectorSettings, codec: Codec) -> WordVectors:
        return WordVectors(model, codec.tokenizers[""])

    def limit(self, *, training: bool) -> Limit | None:
        return Limit(limits.LENGTH_TOKENS, "split") if training else None

    def encode(self, records: Sequence[Any], limit: Limit | None) -> dict[str, list[list[int]]]:
        rows: list[list[int]] = []
        for ids in self.tokenizer.encode_many([record.key for record in records]):
            known = [number for number in ids if number != UNK]
            rows += [known] if limit is None else [known[k : k + ROW_WORDS] for k in range(0, len(known), ROW_WORDS)]
        return {"tokens": rows}

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = np.maximum(columns["tokens"].lengths, 1)
        return lengths

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> VectorBatch:
        tokens, lengths = pad(examples.columns["tokens"], rows)
        return VectorBatch(int(lengths.sum()), tokens, lengths)

    def loss(self, model: nn.Module, batch: VectorBatch, *, label_smoothing: float = 0.0) -> Loss:
        assert isinstance(model, WordVectors)
        return Loss(*heldout_loss(model, batch.tokens, batch.lengths))

    def scores(self) -> VectorScores:
        return VectorScores()

    def measure(self, model: nn.Module, batch: VectorBatch, scores: VectorScores, *, records: Sequence[Any]) -> None:
        assert isinstance(model, WordVectors)
        texts = torch.tensor([isinstance(record, Text) for record in records])
        if texts.any():
            loss = Loss(*heldout_loss(model, batch.tokens[texts], batch.lengths[texts]))
            scores.loss.add(float(loss.total), loss.count)
        self.add_similarities(model, scores, [record for record in records if isinstance(record, Similarity)])
        self.add_analogies(model, scores, [record for record in records if isinstance(record, Analogy)])

    def add_similarities(self, model: WordVectors, scores: VectorScores, pairs: Sequence[Similarity]) -> None:
        """Add the cosine of each pair beside the similarity that people gave it."""
        scores.pairs += len(pairs)
        for pair in pairs:
            first, second = self.vector(model, pair.first), self.vector(model, pair.second)
            if first is not None and second is not None:
                scores.gold.append(pair.score)
                scores.cosines.append(float(first @ second))

    def add_analogies(self, model: WordVectors, scores: VectorScores, questions: Sequence[Analogy]) -> None:
        """Add whether the fourth word of each analogy is the nearest one; those with unknown words do not count."""
        known = [ids for question in questions if UNK not in (ids := self.tokenizer.encode_words(question.words))]
        answers = iter(solve_analogies(model, [ids[:3] for ids in known]))
        found = iter(known)
        for question in questions:
            counts = scores.sections.setdefault(question.section, [0, 0, 0])
            counts[2] += 1
            if UNK not in self.tokenizer.encode_words(question.words):
                counts[0] += next(answers) == next(found)[3]
                counts[1] += 1
        scores.correct, scores.answered, scores.questions = (
            sum(counts[place] for counts in scores.sections.values()) for place in range(3)
        )

    def number(self, word: str) -> int | None:
        """The number of a word; None for one that is not in the vocabulary."""
        found = self.tokenizer.encode_words([word])[0]
        return None if found == UNK else found

    def word_table(self, model: WordVectors) -> WordTable:
        """The vectors of the words, and with n-grams of those that are not in the vocabulary."""
        return WordTable(model, self.number, lambda word: model.unseen(self.tokenizer.normalize(word)))

    def word_tables(self, model: nn.Module) -> dict[str, WordTable]:
        assert isinstance(model, WordVectors)
        return {"words": self.word_table(model)}

    def vector(self, model: WordVectors, word: str) -> Tensor | None:
        """The vector (D,) of a word at length 1; None for a word that is unknown and has no n-grams."""
        return self.word_table(model).vector(word)

    def neighbours(self, model: WordVectors, text: str, *, n: int = NEIGHBOURS) -> Neighbours:
        """The words nearest to a word, or to a sum such as "king - man + woman", whose own words do not count."""
        return Neighbours(text, *self.word_table(model).neighbours(text, n=n))

    def states(self, model: nn.Module, records: Sequence[Any]) -> Tensor:
        assert isinstance(model, WordVectors)
        return pad_sequence(
            [self.raw_vectors(model, self.locate(record).tokens) for record in records], batch_first=True
        )

    def raw_vectors(self, model: WordVectors, words: Sequence[str]) -> Tensor:
        """words (T) -> vectors (T, D) as they were learned; 0 for a word that has none."""
        numbers = torch.tensor(self.tokenizer.encode_words(words), dtype=torch.long)
        vectors = model.vectors(numbers) * (numbers != UNK)[:, None]
        for place in (numbers == UNK).nonzero()[:, 0].tolist():
            made = model.unseen(self.tokenizer.normalize(words[place]))
            if made is not None:
                vectors[place] = made
        return vectors

    def predict(
        self, model: nn.Module, batch: VectorBatch, *, records: Sequence[Any], decode: DecodeConfig
    ) -> list[Neighbours]:
        assert isinstance(model, WordVectors)
        return [self.neighbours(model, record.key) for record in records]


def text_of(record: Any) -> str:
    """The text of a training record; raises a DataError for word similarities and analogies."""
    if isinstance(record, Text):
        return record.text
    what = "word similarities and analogies test vectors, which are learned from text"
    raise DataError(what, where=record.place, cure="give them as data.valid or data.test, or to weft evaluate")
