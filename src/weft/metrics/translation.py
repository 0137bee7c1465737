"""BLEU and chrF of translations, computed by sacreBLEU; exact matches and error rates, computed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.data import Shape, ShapeCount
from weft.metrics.edits import count_edits
from weft.metrics.scores import ratio

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


class TranslationTally:
    """Keeps hypotheses and references, because BLEU and chrF are of the whole corpus and not a mean over sentences.

    BLEU and chrF run from 0 to 100 and are to be quoted with their signature. Nothing added gives 0.
    """

    def __init__(self) -> None:
        self._hypotheses: list[str] = []
        self._references: list[str] = []

    def add(self, hypothesis: str, reference: str) -> None:
        """Keep one translation with its reference, both as plain text."""
        self._hypotheses.append(hypothesis)
        self._references.append(reference)

    @property
    def count(self) -> int:
        """How many translations were added."""
        return len(self._hypotheses)

    @property
    def bleu(self) -> float:
        """Corpus BLEU."""
        return self._score(_bleu())

    @property
    def chrf(self) -> float:
        """Corpus chrF."""
        return self._score(_chrf())

    @property
    def bleu_signature(self) -> str:
        """How sacreBLEU computed BLEU, in its own notation."""
        return _signature(_bleu())

    @property
    def chrf_signature(self) -> str:
        """How sacreBLEU computed chrF, in its own notation."""
        return _signature(_chrf())

    @property
    def exact(self) -> float:
        """Share of hypotheses that equal their reference."""
        equal = sum(ours == theirs for ours, theirs in zip(self._hypotheses, self._references, strict=True))
        return ratio(equal, self.count)

    @property
    def wer(self) -> float:
        """Edits in blank-separated words, over the words of the references."""
        return self._rate("wer")

    @property
    def cer(self) -> float:
        """Edits in characters, over the characters of the references."""
        return self._rate("cer")

    @property
    def shape(self) -> Shape:
        """What the references look like."""
        found = ShapeCount()
        for reference in self._references:
            found.add(reference)
        return found.shape()

    def _rate(self, name: str) -> float:
        found = [count_edits(name, *texts) for texts in zip(self._hypotheses, self._references, strict=True)]
        return ratio(sum(edits for edits, _ in found), sum(length for _, length in found))

    def _score(self, metric: Metric) -> float:
        if not self.count:
            return 0.0
        return float(metric.corpus_score(self._hypotheses, [self._references]).score)


# sacreBLEU is imported only when a score is asked for: it takes a noticeable part of a second.
def _bleu() -> Metric:
    from sacrebleu.metrics.bleu import BLEU

    # force=True only silences the advice on tokenized text, which would come back at every evaluation.
    return BLEU(force=True)


def _chrf() -> Metric:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def _signature(metric: Metric) -> str:
    """The signature needs the number of references, which sacreBLEU learns from the first score."""
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())
