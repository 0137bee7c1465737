"""The batches of tagging, and its results: predicted tags, scores, and the probabilities of given tags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.data import Examples, Tagged
from weft.metrics import LossTally, SpanScheme, SpanTally, looks_like_spans
from weft.metrics.scores import f1
from weft.models import Spelling, TagDistribution
from weft.tasks.labels import ClassScores
from weft.tasks.results import Numbers, Prediction, ScoredText
from weft.tasks.sections import Tree
from weft.tasks.task import UNSEEN, Batch, Rows


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """words and tags (B, T), lengths (B); spellings (U, C) of the distinct words with their lengths (U), and the number
    of the spelling at each place (B, T). In subwords: those of each sentence (B, S), how many they are (B), and the
    place of the first one of each word (B, T)."""

    words: Tensor
    lengths: Tensor
    tags: Tensor
    spellings: Tensor
    spelling_lengths: Tensor
    spelled: Tensor
    legal: Tensor | None = None
    """tags (B, T) that mark the same spans and keep the rules of such tags (see metrics/scheme.py); None without such
    rules."""
    partial: bool = False
    """Whether some tags, as a sequence, are unknown."""

    @property
    def spelling(self) -> Spelling:
        return Spelling(self.spellings, self.spelling_lengths, self.spelled)

    def gold(self, distribution: TagDistribution) -> Tensor:
        """The tags (B, T) that a distribution gives a probability to."""
        return self.legal if distribution.chained and self.legal is not None else self.tags


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


@dataclass(frozen=True)
class ScoredTags(ScoredText):
    """The log-probability that a model gives to the given tags of a sentence, all together, and the probability and the
    rank of each by itself. A rank is counted from 1, the likeliest tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    log_probability: float
    probabilities: tuple[float, ...]
    ranks: tuple[int, ...]
    candidates: tuple[tuple[tuple[str, float], ...], ...] = ()
    """The likeliest tags of each word with their log-probabilities, where they were requested."""

    headings = ("word", "tag", "probability", "rank")

    @property
    def title(self) -> str:
        return f"{' '.join(self.words)} (log-probability {self.log_probability:.4f})"

    def rows(self) -> list[tuple[str, ...]]:
        columns = zip(self.words, self.tags, self.probabilities, self.ranks, strict=True)
        return [(word, tag, f"{100 * share:.2f}%", f"{rank:,}") for word, tag, share, rank in columns]

    def add_to(self, tally: LossTally) -> None:
        tally.add(-self.log_probability, len(self.words))

    def record(self) -> Tree:
        asked = {"candidates": [[list(one) for one in place] for place in self.candidates]} if self.candidates else {}
        return asked | {
            "words": list(self.words),
            "tags": list(self.tags),
            "log_probability": self.log_probability if math.isfinite(self.log_probability) else None,
            "probabilities": list(self.probabilities),
            "ranks": list(self.ranks),
        }


def score_tags(
    found: TagDistribution, given: Tensor, records: Sequence[Tagged], labels: Sequence[str], candidates: int
) -> list[ScoredTags]:
    """given (B, T): the tags of each record -> their probabilities and ranks, with the likeliest tags of each word."""
    logs = found.log_probabilities()
    own = logs.gather(2, given.clamp(min=0)[..., None])
    best = logs.topk(min(candidates, logs.size(2)))
    parts = (own.squeeze(2).exp(), (logs > own).sum(2) + 1, best.indices, best.values)
    columns = (part.tolist() for part in (found.log_likelihood(given), *parts))
    scored = []
    for record, total, *rows in zip(records, *columns, strict=True):
        shares, ranks, tags, tag_logs = (row[: len(record.words)] for row in rows)
        places = (
            zip(map(labels.__getitem__, own), logs, strict=True) for own, logs in zip(tags, tag_logs, strict=True)
        )
        likeliest = tuple(map(tuple, places)) if candidates else ()
        scored.append(ScoredTags(record.words, record.tags or (), total, tuple(shares), tuple(ranks), likeliest))
    return scored


def summarise_tags(tally: LossTally, sentences: int, labels: Sequence[str]) -> dict[str, float]:
    """The numbers over all sentences whose tags were scored."""
    return {
        "sentences": sentences,
        "words": tally.count,
        "log_probability": -tally.total,
        "log_probability_per_word": -tally.loss,
        "labels": len(labels),
    }


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


def scheme_of(labels: Sequence[str]) -> SpanScheme | None:
    """The rules of labels that mark spans; None for others."""
    return SpanScheme(labels, unknown=UNSEEN) if looks_like_spans(labels) else None
