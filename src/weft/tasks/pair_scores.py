"""The scores of a translator: loss on the references, and how near its texts come to them, by language too."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.data import Pair
from weft.data.shape import SHORT_WORDS
from weft.metrics import LossTally, TranslationTally, wilson
from weft.tasks.results import Numbers, Scores
from weft.tasks.sections import Tree

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
    languages: dict[str, TranslationTally] = field(default_factory=dict)
    """The texts of each language, where there are several."""

    def add_text(self, pair: Pair, text: str) -> None:
        """Add the text that was written for a pair."""
        tallies = [self.texts]
        if pair.language is not None:
            tallies.append(self.languages.setdefault(pair.language, TranslationTally()))
        for tally in tallies:
            tally.add(text, pair.accepted)

    def sums(self) -> Numbers:
        return np.concatenate([self.texts.sums(), self.loss.sums()])

    def score(self, sums: Numbers) -> dict[str, float]:
        loss = LossTally.of(sums[-2:])
        return self.texts.score(sums[:-2]) | {"loss": loss.loss, "perplexity": loss.perplexity}

    def merge(self, other: TranslationScores) -> None:
        self.texts.merge(other.texts)
        self.loss.merge(other.loss)
        for language, tally in other.languages.items():
            self.languages.setdefault(language, TranslationTally()).merge(tally)

    @property
    def shown(self) -> tuple[str, ...]:
        """The metrics that are shown: BLEU says nothing of single words, and word errors are rare for sentences."""
        shape = self.texts.shape
        if shape.words <= SHORT_WORDS and not shape.blanks:
            return SHOWN_WITHOUT_BLANKS
        return SHOWN_OF_WORDS if self.items or shape.short else SHOWN_OF_SENTENCES

    def details(self) -> Tree:
        count, bleu = self.texts.count, {"bleu_signature": self.texts.bleu_signature} if "bleu" in self.shown else {}
        several = {"references": self.texts.references} if self.texts.references > count else {}
        return {
            "shown": list(self.shown),
            **bleu,
            "chrf_signature": self.texts.chrf_signature,
            "count": count,
            "count_of": "sources" if several else "pairs",
            **several,
            **({"by_language": self._by_language()} if self.languages else {}),
            "intervals": {"exact": wilson(round(self.texts.exact * count), count)},
            **self.loss.details(unit=self.unit, vocabulary=self.vocabulary),
        }

    def _by_language(self) -> list[Tree]:
        """The metrics of the texts of each language."""
        return [
            {"language": language, "count": tally.count, **tally.score(tally.sums())}
            for language, tally in sorted(self.languages.items())
        ]
