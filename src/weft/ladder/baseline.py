"""The rungs that are no models: always the most frequent label, and the most frequent tag of each word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.compare import Tally
from weft.data import Labelled, Record, Tagged
from weft.errors import ConfigError
from weft.metrics import Confusion, SpanTally, looks_like_spans
from weft.tasks.labels import ClassScores, collect_labels
from weft.tasks.results import Numbers
from weft.tasks.tags import TagScores


class Guessed(NamedTuple):
    """The sums of each example, the numbers that the guesses need, and the seconds of counting them and of guessing."""

    tally: Tally
    parameters: int
    seconds: float
    predict_seconds: float


def guess(train: Iterable[Record], records: Sequence[Record]) -> Guessed:
    """Count the labels of the training data, by word where there are words, and guess the most frequent.

    Of equals the first in the alphabet is guessed; words that training never saw get the most frequent of all.
    """
    began = time.perf_counter()
    total: Counter[str] = Counter()
    by_word: dict[str, Counter[str]] = {}
    for record in train:
        words, labels = _labelled(record)
        total.update(labels)
        for word, label in zip(words, labels, strict=False):
            by_word.setdefault(word, Counter())[label] += 1
    most = _most(total)
    guesses = {word: _most(counts) for word, counts in by_word.items()}
    counted = time.perf_counter()
    labels = collect_labels([total])
    sums = [_sums(record, labels, guesses, most) for record in records]
    tally = Tally(np.stack(sums), np.arange(len(sums)), _scores(labels, records[0]).score)
    return Guessed(tally, max(1, len(guesses)), counted - began, time.perf_counter() - counted)


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda label: (-counts[label], label))


def _labelled(record: Record) -> tuple[Sequence[str], Sequence[str]]:
    """The words of a tagged sentence with their tags; of a labelled text no words, and its label."""
    if isinstance(record, Tagged):
        return record.words, record.tags or ()
    if isinstance(record, Labelled) and isinstance(record.label, str):
        return (), (record.label,)
    raise ConfigError("guesses one label for each text", where="majority")


def _scores(labels: Sequence[str], record: Record) -> ClassScores:
    if not isinstance(record, Tagged):
        return ClassScores(Confusion(labels))
    return TagScores(Confusion(labels), spans=SpanTally() if looks_like_spans(labels) else None)


def _sums(record: Record, labels: Sequence[str], guesses: Mapping[str, str], most: str) -> Numbers:
    """The sums of one example; where there are no words, as in a sequence of numbers, the most frequent is guessed."""
    words, gold = _labelled(record)
    guessed = [guesses.get(word, most) for word in words] or [most] * len(gold)
    scores = _scores(labels, record)
    number = {label: place for place, label in enumerate(labels)}
    scores.confusion.add([number.get(label, -1) for label in gold], [number[label] for label in guessed])
    if isinstance(scores, TagScores) and scores.spans is not None:
        scores.spans.add(gold, guessed)
    return np.asarray(scores.sums(), dtype=np.float64)
