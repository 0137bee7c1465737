"""Tag: one label for each word of a sentence, read from the word and from its characters. Accuracy, F1, span F1."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from weft import limits
from weft.data import BadLines, Capacity, Columns, Examples, Limit, Ragged, Tagged, pad, read_tagged
from weft.decoding import DecodeConfig
from weft.metrics import Confusion, SpanTally, looks_like_spans
from weft.metrics.scores import f1
from weft.models import TAGGERS, Spelling, Tagger, TaggerSettings
from weft.nn import length_mask
from weft.settings import Length, OneOf, Unread
from weft.tasks.baselines import word_baselines
from weft.tasks.labels import ClassScores, collect_labels, label_columns, require_classes
from weft.tasks.length import passes
from weft.tasks.results import Numbers, Prediction
from weft.tasks.sections import DataConfig, Facts, Sections, Tree, written
from weft.tasks.states import Located
from weft.tasks.task import UNSEEN, Baselines, Batch, Codec, Loss, Rows, Task, cross_entropy
from weft.text import UNK, TextConfig, Tokenizer, word_defaults

SPELLING = TextConfig(kind="char", size=1000)
PUNCTUATION = string.punctuation + "“”‘’«»…—–¿¡。、，"


class TaggedData(DataConfig):
    """Tagged sentences: CoNLL-U, or columns separated by blanks with an empty line between sentences."""

    field: str = "upos"
    """The CoNLL-U column that holds the tag."""
    column: int | None = Field(None, ge=1, le=limits.COLUMN)
    """The tag's column in other files, counted from zero; the last one unless given."""
    max_length: Length = 200
    """The greatest number of words of a training sentence."""
    overlong: Literal["error", "truncate", "split", "drop"] = "split"
    """The treatment of a longer training sentence."""

    def unread(self) -> Iterator[Unread]:
        if self.column is not None:
            yield Unread("field", f"is not read beside column = {self.column}", "remove one of the two")


class TaggedText(TextConfig):
    """Words as the files have them; a token is always a word."""

    kind: Literal["word"] = "word"
    """Words."""

    def unread(self) -> Iterator[Unread]:
        yield Unread("punctuation", "cuts nothing: the files have their words cut already", "remove it")


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """words and tags (B, T), lengths (B); spellings (U, C) of the distinct words with their lengths (U), and the number
    of the spelling at each place (B, T)."""

    words: Tensor
    lengths: Tensor
    tags: Tensor
    spellings: Tensor
    spelling_lengths: Tensor
    spelled: Tensor

    @property
    def spelling(self) -> Spelling:
        """The spellings as the model takes them."""
        return Spelling(self.spellings, self.spelling_lengths, self.spelled)


@dataclass(frozen=True)
class Tagging(Prediction):
    """Words with their likeliest tags and how likely those are."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def record(self) -> Tree:
        return {"words": list(self.words), "tags": list(self.tags), "probabilities": list(self.probabilities)}

    def line(self, *, probabilities: bool = False) -> str:
        if not probabilities:
            return str(self)
        parts = zip(self.words, self.tags, self.probabilities, strict=True)
        return " ".join(f"{word}/{tag}/{share:.4g}" for word, tag, share in parts)

    def cells(self, name: str, *, probabilities: bool = False) -> Tree:
        return {name: list(self.tags)} | ({"probabilities": list(self.probabilities)} if probabilities else {})


@dataclass
class TagScores(ClassScores):
    """Single tags, and whole spans where the tags mark spans."""

    spans: SpanTally | None = None

    def sums(self) -> Numbers:
        return super().sums() if self.spans is None else np.concatenate([self.spans.sums(), super().sums()])

    def score(self, sums: Numbers) -> dict[str, float]:
        if self.spans is None:
            return super().score(sums)
        return {"span_f1": f1(*map(float, sums[:3]))} | super().score(sums[3:])

    def merge(self, other: ClassScores) -> None:
        super().merge(other)
        if self.spans is not None and isinstance(other, TagScores) and other.spans is not None:
            self.spans.merge(other.spans)

    def details(self) -> Tree:
        spans = {"spans": [row._asdict() for row in self.spans.per_class()]} if self.spans else {}
        return super().details() | spans


MODEL = OneOf(TAGGERS)


class Tag(Task):
    """Tagged sentences to a tagger."""

    name = "tag"
    summary = "tagged words (parts of speech, names) to a tagger"
    metric = "accuracy"
    metrics: tuple[str, ...] = ("span_f1", "accuracy", "f1", "loss")
    sections = Sections(TaggedData, TaggedText, Annotated[TaggerSettings, MODEL], marks=0)
    data: TaggedData
    files = ("train.conllu", "valid.conllu", "test.conllu")
    pipeline_tag = "token-classification"
    label_column = "tags"

    def __init__(self, codec: Codec, data: TaggedData) -> None:
        super().__init__(codec, data)
        self.words: Tokenizer = codec.tokenizers["words"]
        self.characters: Tokenizer = codec.tokenizers["characters"]
        self.spans = looks_like_spans(codec.labels)
        if self.spans:
            self.metric = "span_f1"
        else:
            self.metrics = tuple(name for name in type(self).metrics if name != "span_f1")

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        kind = MODEL.kind_of(written(tree, "model"))
        models: dict[str, Tree] = {
            "rnn": {"embedding": 128, "hidden": 128, "characters": 64, "dropout": 0.4},
            "transformer": {"width": 128, "layers": 2, "characters": 64, "dropout": 0.2},
        }
        epochs = 150_000 / facts.examples
        return {
            "text": {**word_defaults(facts.characters), "min_count": 1, "lowercase": True},
            "model": models.get(kind, {}),
            "train": {
                "epochs": passes(tree, facts.characters / 6, 1024, epochs=epochs, between=(12, 30), updates=300),
                "rate": 3e-3 if kind == "rnn" else 1e-3,
                "batch_tokens": 1024,
            },
        }

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        return "span_f1" if "span_f1" in measured else cls.metric

    @staticmethod
    def read(path: str | list[str], data: TaggedData, bad: BadLines) -> Iterator[Tagged]:
        return read_tagged(path, field=data.field, column=data.column, bad=bad)

    @staticmethod
    def columns(data: TaggedData) -> Columns:
        return Columns(Tagged, "words", "tags" if data.field == "upos" else data.field)

    @staticmethod
    def roles(text: TextConfig) -> dict[str, TextConfig]:
        return {"words": text, "characters": SPELLING.model_copy(update={"unknown": text.unknown})}

    @staticmethod
    def learn(records: Iterable[Tagged], text: TextConfig) -> Codec:
        labels = collect_labels(record.tags or () for record in records)
        require_classes(labels)
        words = Tokenizer.learn_words((record.words for record in records), text)
        spelling = Tag.roles(text)["characters"]
        characters = Tokenizer.learn((word for record in records for word in record.words), spelling)
        return Codec({"words": words, "characters": characters}, labels)

    @staticmethod
    def build(model: TaggerSettings, codec: Codec) -> Tagger:
        words, characters = (len(codec.tokenizers[role]) for role in ("words", "characters"))
        return Tagger(model, words, characters, len(codec.labels))

    def tokenizer_of(self, part: str) -> Tokenizer:
        return self.words

    def encode(self, records: Sequence[Tagged], limit: Limit | None) -> dict[str, list[list[int]]]:
        columns: dict[str, list[list[int]]] = {"words": [], "tags": [], "characters": [], "sizes": []}
        for record in records:
            places = list(range(len(record.words)))
            for piece in limit.cut(places, record.place) if limit else [places]:
                words = [record.words[place] for place in piece]
                spellings = self.characters.encode_many(words)
                columns["words"].append(self.words.encode_words(words))
                columns["tags"].append(
                    [UNSEEN if record.tags is None else self.codec.label_id(record.tags[place]) for place in piece]
                )
                columns["characters"].append([letter for spelling in spellings for letter in spelling])
                columns["sizes"].append([len(spelling) for spelling in spellings])
        return columns

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = columns["words"].lengths
        return lengths

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> TaggedBatch:
        assert not packed, "a tagger takes padded batches"
        assert capacity is None
        words, lengths = pad(examples.columns["words"], rows)
        tags, _ = pad(examples.columns["tags"], rows, UNSEEN)
        spellings, sizes, spelled = spell(examples, rows, words.shape)
        return TaggedBatch(int((tags != UNSEEN).sum()), words, lengths, tags, spellings, sizes, spelled)

    def logits(self, model: nn.Module, batch: TaggedBatch) -> Tensor:
        """(B, T, labels)."""
        logits: Tensor = model(batch.words, batch.lengths, batch.spelling)
        return logits

    def loss(self, model: nn.Module, batch: TaggedBatch, *, label_smoothing: float = 0.0) -> Loss:
        logits = self.logits(model, batch).flatten(0, 1)
        return cross_entropy(logits, batch.tags.flatten(), count=batch.count, label_smoothing=label_smoothing)

    def scores(self) -> TagScores:
        return TagScores(Confusion(self.codec.labels), unit="words", spans=SpanTally() if self.spans else None)

    def measure(
        self,
        model: nn.Module,
        batch: TaggedBatch,
        scores: TagScores,
        *,
        records: Sequence[Tagged],
    ) -> None:
        logits = self.logits(model, batch)
        real = length_mask(batch.lengths, batch.words.size(1))
        scores.add(logits[real], batch.tags[real])
        scores.unseen.update(
            tag for record in records for tag in record.tags or () if self.codec.label_id(tag) == UNSEEN
        )
        if scores.spans is not None:
            for record, row in zip(records, logits.argmax(-1).tolist(), strict=True):
                gold = record.tags or ()
                scores.spans.add(gold, [self.codec.labels[number] for number in row[: len(gold)]])

    def locate(self, record: Tagged) -> Located:
        return Located(record.words, record.words, tuple(range(len(record.words))))

    def states(self, model: nn.Module, records: Sequence[Tagged]) -> Tensor:
        if not isinstance(model, Tagger):
            return super().states(model, records)
        columns = {name: Ragged.from_lists(rows) for name, rows in self.encode(records, None).items()}
        examples = Examples(columns, self.cost(columns))
        batch = self.collate(examples, range(len(records))).to(next(model.parameters()).device)
        return model.encode(batch.words, batch.lengths, batch.spelling)

    def baselines(
        self, train: Iterable[Tagged], parts: Mapping[str, Sequence[Tagged]], *, seed: int
    ) -> dict[str, Baselines]:
        return word_baselines(self.codec, train, parts, spans=self.spans)

    def record(self, source: Any) -> Tagged:
        """A sentence as a list of words, or as text: then punctuation at a word's ends is split off."""
        words = self.split(source) if isinstance(source, str) else [str(word) for word in source]
        return Tagged(tuple(words), None, place="")

    def split(self, text: str) -> list[str]:
        """Split at blanks and cut off punctuation, except from words of the vocabulary, such as "U.S."."""
        words: list[str] = []
        for word in text.split():
            core = word.strip(PUNCTUATION)
            if not core or self.words.encode_words([word]) != [UNK]:
                words.append(word)
                continue
            start = word.index(core)
            words += [*word[:start], core, *word[start + len(core) :]]
        return words

    def predict(
        self,
        model: nn.Module,
        batch: TaggedBatch,
        *,
        records: Sequence[Tagged],
        decode: DecodeConfig,
    ) -> list[Tagging]:
        best, numbers = self.logits(model, batch).float().softmax(-1).max(-1)
        answers = []
        for record, row, shares in zip(records, numbers.tolist(), best.tolist(), strict=True):
            tags = tuple(self.codec.labels[number] for number in row[: len(record.words)])
            answers.append(Tagging(record.words, tags, tuple(shares[: len(tags)])))
        return answers

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return label_columns(self.codec.labels, name, probabilities=probabilities)


def spell(examples: Examples, rows: Rows, shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct spellings in these rows (U, C), their lengths (U), and the number of that at each place (B, T)."""
    words = examples.columns["sizes"].lengths[np.asarray(rows)]
    flat = examples.columns["characters"].join(rows)
    counts = examples.columns["sizes"].join(rows)
    table = np.zeros((len(counts), int(counts.max(initial=1))), dtype=np.int64)
    table[np.arange(table.shape[1]) < counts[:, None]] = flat
    distinct, where = np.unique(table, axis=0, return_inverse=True)
    spelled = np.zeros(shape, dtype=np.int64)
    spelled[np.arange(shape[1]) < words[:, None]] = where.reshape(-1)
    lengths = (distinct != 0).sum(1)
    return torch.from_numpy(distinct), torch.from_numpy(lengths), torch.from_numpy(spelled)
