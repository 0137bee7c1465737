"""Translate: any sequence to any other. Pairs in, text out, BLEU and chrF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from weft.data import FEW_WORDS, BadLines, Capacity, Columns, Examples, Limit, Pair, read_pairs
from weft.data.shape import SHORT_WORDS
from weft.errors import DataError
from weft.metrics import LossTally, TranslationTally, wilson
from weft.models import DECODERS, ENCODERS, Translator, TranslatorConfig
from weft.nn import Packing
from weft.settings import KEEP_UNREAD, Count, Length, OneOf, Settings, Unread, Vocabulary
from weft.tasks.generation import Generation, Question, Scored, scored, text_columns
from weft.tasks.length import passes
from weft.tasks.pairs import choose_metric, choose_tokens, tokens_per_pair
from weft.tasks.results import Numbers, Scores
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.shift import count_unknown, lay, predictions, shift, token_loss
from weft.tasks.states import pad_ids
from weft.tasks.tables import ColumnSetting, TableData
from weft.tasks.task import Batch, Codec, Loss, Rows, Task
from weft.text import EOS, SOS, TextConfig, Tokenizer


class PairData(TableData):
    """Sentence pairs: TSV, CSV or JSON, or two files with a sentence per line."""

    source: ColumnSetting = "source"
    """The source's column: a name, a JSON path, a number from 0, or several to be joined."""
    target: ColumnSetting = "target"
    """The target's column."""
    max_length: Length = 200
    """The greatest number of tokens on either side of a training pair."""
    overlong: Literal["error", "truncate", "drop"] = "drop"
    """The treatment of a longer training pair."""

    def unread(self) -> Iterator[Unread]:
        if all(isinstance(path, list) and len(path) == 2 for path in (self.train, self.valid, self.test) if path):
            for name in ("source", "target"):
                yield Unread(name, "names no column: the files are parallel text", "remove it, or give a table")


class SideText(Settings):
    """Settings of one side of a pair that differ from those of both."""

    kind: Literal["char", "word", "bpe", "unigram"] | None = None
    size: Vocabulary | None = None
    min_count: Count | None = None
    lowercase: bool | None = None
    punctuation: Literal["split", "keep"] | None = None
    unknown: str | None = None

    def given(self) -> Tree:
        return self.model_dump(exclude_none=True)


class PairText(TextConfig):
    """Tokens of both sides; `[text.source]` and `[text.target]` say where they differ."""

    shared: bool = False
    """One vocabulary for both sides."""
    source: SideText = Field(default_factory=SideText)
    """Settings that differ on the source side."""
    target: SideText = Field(default_factory=SideText)
    """Settings that differ on the target side."""

    @model_validator(mode="after")
    def _shared_means_same(self) -> PairText:
        if self.shared and (self.source.given() or self.target.given()):
            raise ValueError("shared = true excludes [text.source] and [text.target]; remove one of the two")
        return self

    def unread(self) -> Iterator[Unread]:
        sides = {"source": self.side(self.source), "target": self.side(self.target)}
        for name, text in sides.items():
            if text.kind != "word":
                why = f'cuts nothing: kind = "{text.kind}" on this side'
                yield Unread(f"{name}.punctuation", why, 'remove it, or use kind = "word"')
        for name in TextConfig.model_fields:
            if all(getattr(side, name) is not None for side in (self.source, self.target)):
                yield Unread(name, f"is not read: text.source.{name} and text.target.{name} overrule it", "remove it")
        if all(text.kind != "word" for text in sides.values()):
            yield Unread("punctuation", "cuts nothing: neither side has words", 'remove it, or use kind = "word"')

    def side(self, side: SideText) -> TextConfig:
        """The settings of one side."""
        common = {name: getattr(self, name) for name in TextConfig.model_fields}
        return TextConfig.model_validate(common | side.given(), context=KEEP_UNREAD)


@dataclass(frozen=True)
class PairBatch(Batch):
    """source (B, S) ends with the end token, target (B, T) starts with the start token; the token expected after
    each token of the target (M) and its place (M), as in `Shifted`."""

    source: Tensor
    source_lengths: Tensor | Packing
    target: Tensor
    target_lengths: Tensor | Packing
    expected: Tensor
    places: Tensor | None


SHOWN_OF_SENTENCES = ("bleu", "chrf", "exact", "loss", "perplexity")
SHOWN_OF_WORDS = ("exact", "wer", "chrf", "loss")
SHOWN_WITHOUT_BLANKS = ("chrf", "exact", "cer", "loss")


@dataclass
class TranslationScores(Scores):
    """Loss on the reference and overlap of the output with it; `items` where targets are sequences of a few symbols."""

    unit: str
    vocabulary: int
    items: bool = False
    loss: LossTally = field(default_factory=LossTally)
    texts: TranslationTally = field(default_factory=TranslationTally)

    def sums(self) -> Numbers:
        return np.concatenate([self.texts.sums(), self.loss.sums()])

    def score(self, sums: Numbers) -> dict[str, float]:
        loss = LossTally.of(sums[-2:])
        return self.texts.score(sums[:-2]) | {"loss": loss.loss, "perplexity": loss.perplexity}

    def merge(self, other: TranslationScores) -> None:
        self.texts.merge(other.texts)
        self.loss.merge(other.loss)

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics that are shown: BLEU says nothing of single words, and word errors are rare for sentences."""
        shape = self.texts.shape
        if shape.words <= SHORT_WORDS and not shape.blanks:
            return SHOWN_WITHOUT_BLANKS
        return SHOWN_OF_WORDS if self.items or shape.short else SHOWN_OF_SENTENCES

    def details(self) -> Tree:
        count, bleu = self.texts.count, {"bleu_signature": self.texts.bleu_signature} if "bleu" in self.shown else {}
        return {
            "shown": list(self.shown),
            **bleu,
            "chrf_signature": self.texts.chrf_signature,
            "count": count,
            "count_of": "pairs",
            "intervals": {"exact": wilson(round(self.texts.exact * count), count)},
            **self.loss.details(unit=self.unit, vocabulary=self.vocabulary),
        }


class Translate(Task):
    """Sentence pairs to a translator."""

    name = "translate"
    summary = "sentence pairs to a translator (or any other sequence to sequence)"
    metric = "bleu"
    metrics: tuple[str, ...] = ("bleu", "chrf", "exact", "wer", "cer", "loss", "perplexity")
    sections = Sections(PairData, PairText, TranslatorConfig)
    data: PairData
    pipeline_tag = "translation"
    writes = scores_texts = measures_answers = True

    def __init__(self, codec: Codec, data: PairData) -> None:
        super().__init__(codec, data)
        self.source, self.target = codec.side("source"), codec.side("target")

    @staticmethod
    def reason(facts: Facts) -> str:
        return choose_metric(facts.target).reason

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        millions = facts.characters / 1e6  # of the source side
        size = 128 if millions < 1.5 else 256
        words = choose_metric(facts.target).metric == "exact"
        # Inflected forms and phones follow rules; a model with few examples must not learn them by heart.
        dropout = 0.1 if facts.examples > 20_000 else 0.3 if words else 0.2
        models: dict[str, Tree] = {
            "rnn": {"embedding": size, "hidden": size, "dropout": dropout},
            "transformer": {"width": size, "dropout": dropout},
        }
        kinds = {
            "encoder": OneOf(ENCODERS).kind_of(written(tree, "model", "encoder")),
            "decoder": OneOf(DECODERS).kind_of(written(tree, "model", "decoder")),
        }
        rate = 4e-3 if millions < 1.5 else 2e-3
        subwords = {"kind": "bpe", "size": 1000 if millions < 1.5 else 4000 if millions < 10 else 8000}
        text = choose_tokens(facts, tree, subwords)
        batch = 1024 if millions < 1.5 else 2048 if millions < 10 else 4096
        tokens = facts.examples * tokens_per_pair(facts, text)
        updates = min(3000 if words else 1500, max(700, 13 * facts.examples // 5))
        return {
            "text": text,
            "model": {side: models.get(kind, {}) for side, kind in kinds.items()},
            "train": {
                "metric": choose_metric(facts.target).metric,
                "epochs": passes(
                    tree, tokens, batch, epochs=130_000 / facts.examples, between=(4, 60), updates=updates
                ),
                "batch_tokens": batch,
                "rate": rate if set(kinds.values()) == {"rnn"} else min(rate, 1e-3),
                # Smoothing gives every symbol a probability. The right word is then less likely than it should be, and
                # a beam finds others.
                "label_smoothing": 0.0 if words else 0.1,
                # The loss of words is lowest early, but exact matches are most frequent after the rate has fallen.
                **({"patience": 20} if words else {}),
            },
            "decode": {"beam": 4, "length_penalty": 1.0},
        }

    @staticmethod
    def read(path: str | list[str], data: PairData, bad: BadLines) -> Iterator[Pair]:
        return read_pairs(path, source=data.source, target=data.target, layout=data.layout, bad=bad)

    @staticmethod
    def columns(data: PairData) -> Columns:
        return Columns(Pair, data.source, data.target)

    @staticmethod
    def roles(text: PairText) -> dict[str, TextConfig]:
        return {"": text} if text.shared else {"source": text.side(text.source), "target": text.side(text.target)}

    @staticmethod
    def learn(records: Iterable[Pair], text: PairText) -> Codec:
        texts = {
            "": (side for pair in records for side in (pair.source, pair.target or "")),
            "source": (pair.source for pair in records),
            "target": (pair.target or "" for pair in records),
        }
        return Codec({role: Tokenizer.learn(texts[role], side) for role, side in Translate.roles(text).items()})

    @staticmethod
    def build(model: TranslatorConfig, codec: Codec) -> Translator:
        source, target = codec.side("source"), codec.side("target")
        return model.build(len(source), len(target), shared=source is target)

    def tokenizer_of(self, part: str) -> Tokenizer:
        return self.source if part.startswith("encoder") else self.target

    def encode(self, records: Sequence[Pair], limit: Limit | None) -> dict[str, list[list[int]]]:
        columns: dict[str, list[list[int]]] = {"source": [], "target": []}
        sources = self.source.encode_many([pair.source for pair in records])
        targets = self.target.encode_many([pair.target or "" for pair in records])
        for pair, source, target in zip(records, sources, targets, strict=True):
            if limit is not None:
                cut_source, cut_target = limit.cut(source, pair.place), limit.cut(target, pair.place)
                if not cut_source or not cut_target:
                    continue
                source, target = cut_source[0], cut_target[0]
            columns["source"].append([*source, EOS])
            columns["target"].append([SOS, *target, EOS])
        return columns

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        # The last token of a target is expected and never read.
        return np.stack([columns["source"].lengths, columns["target"].lengths - 1], axis=1)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> PairBatch:
        target = shift(examples.columns["target"], rows, packed=packed, capacity=capacity and capacity.side(1))
        tokens, lengths = lay(examples.columns["source"], rows, packed=packed, capacity=capacity and capacity.side(0))
        return PairBatch(predictions(examples.columns["target"], rows), tokens, lengths, *target)

    def loss(self, model: nn.Module, batch: PairBatch, *, label_smoothing: float = 0.0) -> Loss:
        return self.forced_loss(model, batch, truth=1.0, label_smoothing=label_smoothing)

    def forced_loss(self, model: nn.Module, batch: PairBatch, *, truth: float, label_smoothing: float = 0.0) -> Loss:
        """The loss where the model reads a true token with probability `truth`, and else its own prediction."""
        assert isinstance(model, Translator)
        hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths, truth=truth)
        return token_loss(model, hidden, batch, label_smoothing=label_smoothing)

    def states(self, model: nn.Module, records: Sequence[Pair]) -> Tensor:
        if not isinstance(model, Translator):
            return super().states(model, records)
        rows = self.source.encode_many([pair.source for pair in records])
        tokens, lengths = pad_ids([[*row, EOS] for row in rows], next(model.parameters()).device)
        states: Tensor = model.encode(tokens, lengths).states
        return states

    def scores(self) -> TranslationScores:
        items = self.target.kind == "word" and len(self.target) <= FEW_WORDS
        return TranslationScores(self.target.unit, len(self.target), items=items)

    def measure(
        self,
        model: nn.Module,
        batch: PairBatch,
        scores: TranslationScores,
        *,
        records: Sequence[Pair],
    ) -> None:
        loss = self.loss(model, batch)
        scores.loss.add(float(loss.total), loss.count, count_unknown(batch))

    def add_answers(self, scores: TranslationScores, records: Sequence[Pair], answers: Sequence[Generation]) -> None:
        for pair, answer in zip(records, answers, strict=True):
            scores.texts.add(answer.text, pair.target or "")

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return text_columns(name, n_best=n_best, probabilities=probabilities)

    def question(self, model: Translator, batch: PairBatch, *, records: Sequence[Pair]) -> Question:
        assert isinstance(batch.source_lengths, Tensor)
        memory = model.encode(batch.source, batch.source_lengths)
        # A few words may command many actions, and a subword may have several characters.
        longer = 8 if self.source.kind == "word" else 6 if self.target.kind == "char" != self.source.kind else 2
        return Question(self.target, memory, limits=(longer * batch.source_lengths + 20).tolist())

    def source_tokens(self, batch: PairBatch) -> list[tuple[str, ...]]:
        assert isinstance(batch.source_lengths, Tensor)
        rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
        return [tuple(self.source.tokens(row[:length])) for row, length in rows]

    @staticmethod
    def read_to_score(path: str | list[str], data: PairData, bad: BadLines) -> Iterator[Pair]:
        return Translate.read(path, data, bad)

    def record_to_score(self, item: Any) -> Pair:
        if isinstance(item, Pair):
            return item
        if not isinstance(item, tuple):
            raise DataError(f"{item!r} is not what a run of translate can score", cure="give (source, target)")
        return Pair(*item)

    def score(self, model: nn.Module, batch: PairBatch, *, records: Sequence[Pair]) -> list[Scored]:
        assert isinstance(model, Translator)
        assert isinstance(batch.target_lengths, Tensor)
        hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
        texts = [(pair.source, pair.target or "") for pair in records]
        return scored(model, self.target, hidden, batch.expected, batch.target_lengths, texts=texts)
