"""BLEU and chrF of translations, computed by sacreBLEU; exact matches and error rates, computed here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data import Shape, ShapeCount
from weft.metrics.edits import UNITS, count_nearest
from weft.metrics.scores import ratio

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Numbers = NDArray[np.float64]


class TranslationTally:
    """Keeps hypotheses and references, because BLEU and chrF are of the whole corpus and not a mean over sentences.

    BLEU and chrF run from 0 to 100 and are to be quoted with their signature. Nothing added gives 0.
    """

    def __init__(self) -> None:
        self._hypotheses: list[str] = []
        self._references: list[tuple[str, ...]] = []

    def add(self, hypothesis: str, references: Sequence[str]) -> None:
        """Keep one translation with its references, all as plain text; each translation may have another number."""
        self._hypotheses.append(hypothesis)
        self._references.append((references,) if isinstance(references, str) else tuple(references))

    def merge(self, other: TranslationTally) -> None:
        """Add everything that another tally keeps."""
        self._hypotheses += other._hypotheses
        self._references += other._references

    def sums(self) -> Numbers:
        """The numbers that all scores follow from, those of each translation summed."""
        return np.concatenate([self._sums(name) for name in NAMES])

    @staticmethod
    def score(sums: Numbers) -> dict[str, float]:
        """BLEU, chrF, exact matches and error rates of such sums."""
        sizes = [_size(name) for name in NAMES]
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        return {name: _score(name, part) for name, part in zip(NAMES, parts, strict=True)}

    @property
    def count(self) -> int:
        """How many translations were added."""
        return len(self._hypotheses)

    @property
    def references(self) -> int:
        """How many references all translations have together."""
        return sum(map(len, self._references))

    @property
    def bleu(self) -> float:
        """Corpus BLEU."""
        return _score("bleu", self._sums("bleu"))

    @property
    def chrf(self) -> float:
        """Corpus chrF."""
        return _score("chrf", self._sums("chrf"))

    @property
    def bleu_signature(self) -> str:
        """How sacreBLEU computed BLEU, in its own notation."""
        return _signature("bleu", self._counts())

    @property
    def chrf_signature(self) -> str:
        """How sacreBLEU computed chrF, in its own notation."""
        return _signature("chrf", self._counts())

    @property
    def exact(self) -> float:
        """Share of hypotheses that equal one of their references."""
        return _score("exact", self._sums("exact"))

    @property
    def wer(self) -> float:
        """Edits in blank-separated words to the nearest references, over the words of these."""
        return _score("wer", self._sums("wer"))

    @property
    def cer(self) -> float:
        """Edits in characters to the nearest references, over the characters of these."""
        return _score("cer", self._sums("cer"))

    @property
    def shape(self) -> Shape:
        """The shape of the references."""
        found = ShapeCount()
        for references in self._references:
            for reference in references:
                found.add(reference)
        return found.shape()

    def _counts(self) -> tuple[int, ...]:
        """The numbers of references that translations have, each once."""
        return tuple(sorted({len(references) for references in self._references})) or (1,)

    def _sums(self, name: str) -> Numbers:
        rows: Any
        if name in CORPUS:  # the statistics that sacreBLEU's own significance tests resample
            streams = list(zip_longest(*self._references))  # stream n has reference n of each text, or None
            rows = _metric(name)._extract_corpus_statistics(self._hypotheses, streams) if self.count else []
        else:
            texts = zip(self._hypotheses, self._references, strict=True)
            rows = [count_nearest(name, *pair) if name in UNITS else (pair[0] in pair[1], 1) for pair in texts]
        sums: Numbers = np.array(rows, dtype=np.int64).reshape(-1, _size(name)).sum(axis=0).astype(np.float64)
        return sums


CORPUS = ("bleu", "chrf")
NAMES = (*CORPUS, "exact", *UNITS)
"""The scores, in the order in which a report has them."""


def _score(name: str, sums: Numbers) -> float:
    """One score of its own sums; 0 where there are none."""
    if name not in CORPUS:
        return ratio(float(sums[0]), float(sums[1]))
    if not sums.any():
        return 0.0
    return float(_metric(name)._compute_score_from_stats(sums.astype(np.int64).tolist()).score)


@cache
def _size(name: str) -> int:
    """How many sums a score follows from."""
    return len(_metric(name)._extract_corpus_statistics(["a"], [["a"]])[0]) if name in CORPUS else 2


@cache
def _signature(name: str, counts: tuple[int, ...]) -> str:
    """The signature has the number of references, which sacreBLEU learns from a score with so many of them."""
    metric = _metric(name)
    metric.corpus_score(["a"] * len(counts), list(zip_longest(*(["a"] * count for count in counts))))
    return str(metric.get_signature())


@cache
def _metric(name: str) -> Metric:
    """sacreBLEU is imported only when a score is needed: the import takes a noticeable part of a second."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # force=True only silences the advice on tokenized text, which would come back at every evaluation.
    return BLEU(force=True) if name == "bleu" else CHRF()
