"""The scores of word vectors: loss on a text, rank correlation with people's similarities, accuracy on analogies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.metrics import LossTally, spearman, wilson
from weft.tasks.results import Numbers, Scores
from weft.tasks.sections import Tree


@dataclass
class VectorScores(Scores):
    """The loss on a text, similarities of words beside those that people gave, and answers to analogies."""

    loss: LossTally = field(default_factory=LossTally)
    pairs: int = 0
    gold: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    questions: int = 0
    answered: int = 0
    correct: int = 0
    sections: dict[str, list[int]] = field(default_factory=dict)
    """Correct, answered and all analogies of each section."""

    def sums(self) -> Numbers:
        counts = (self.questions, self.answered, self.correct, self.pairs, len(self.gold))
        return np.array([*self.loss.sums(), *counts, sum(self.gold), sum(self.cosines)], dtype=np.float64)

    def score(self, sums: Numbers) -> dict[str, float]:
        questions, answered, correct, pairs, known = map(float, sums[2:7])
        metrics: dict[str, float] = {}
        if sums[1] or not (questions or pairs):
            metrics["loss"] = LossTally.of(sums[:2]).loss
        if answered:
            metrics["accuracy"] = correct / answered
        if questions or pairs:
            metrics["coverage"] = (answered + known) / (questions + pairs)
        return metrics

    def score_rows(self, rows: Numbers) -> dict[str, float]:
        known = rows[rows[:, 6] > 0]
        return self._correlated(self.score(rows.sum(0)), known[:, 7], known[:, 8])

    def metrics(self) -> dict[str, float]:
        return self._correlated(self.score(self.sums()), self.gold, self.cosines)

    @staticmethod
    def _correlated(metrics: dict[str, float], gold: Any, cosines: Any) -> dict[str, float]:
        return {"spearman": spearman(gold, cosines), **metrics} if len(gold) else metrics

    def merge(self, other: VectorScores) -> None:
        self.loss.merge(other.loss)
        self.gold += other.gold
        self.cosines += other.cosines
        for name in ("pairs", "questions", "answered", "correct"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for section, counts in other.sections.items():
            own = self.sections.setdefault(section, [0, 0, 0])
            self.sections[section] = [one + two for one, two in zip(own, counts, strict=True)]

    def details(self) -> Tree:
        found: Tree = {}
        if self.pairs:
            missing = self.pairs - len(self.gold)
            found["word_pairs"] = f"{self.pairs:,}, of which {missing:,} have a word without a vector"
        if self.questions:
            missing = self.questions - self.answered
            found["analogies"] = f"{self.questions:,}, of which {missing:,} have a word without a vector"
            interval = wilson(self.correct, self.answered) if self.answered else (0.0, 0.0)
            found |= {"count": self.answered, "count_of": "analogies", "intervals": {"accuracy": interval}}
            found["sections"] = {
                name: {"correct": correct, "answered": answered, "questions": questions}
                for name, (correct, answered, questions) in self.sections.items()
            }
        return found
