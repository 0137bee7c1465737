"""A bag of n-grams that is fitted to texts in memory: a baseline of the reports of classify and regress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.models.bag.characters import read_characters
from weft.models.bag.config import NUMBER_RATE, BagConfig, BagRegressorConfig, bag_defaults
from weft.models.bag.fit import BagFit, PlainTexts
from weft.models.bag.model import Bag
from weft.models.fitting import FitOptions

MAX_CHARACTERS: Final = 40_000_000
"""Characters of all texts together; of more, a random part is used."""

MAX_TEXT_CHARACTERS: Final = 20_000
"""Characters of a text that are read; the rest is ignored."""


class BagBaseline(NamedTuple):
    """A fitted model, and the number of texts that it was fitted to."""

    model: Bag
    fitted: int

    def predict(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The likeliest label of each text (N)."""
        found: NDArray[np.int64] = self.model.logits(read_characters(_cut(texts))).argmax(-1).numpy()
        return found

    def numbers(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The number of each text (N), of a bag that predicts numbers."""
        found: NDArray[np.float64] = self.model.logits(read_characters(_cut(texts)))[:, 0].double().numpy()
        return found


def fit_bag(examples: Iterable[tuple[str, int]], labels: int, *, seed: int = 0) -> BagBaseline:
    """Fit a bag of n-grams with its default settings to texts, each with its label's number below `labels`."""
    return _fit(examples, labels, 1.0, seed)


def fit_number_bag(examples: Iterable[tuple[str, float]], *, seed: int = 0) -> BagBaseline:
    """Fit a bag of n-grams with its default settings to texts, each with its number, standardised."""
    return _fit(examples, None, NUMBER_RATE, seed)


def _fit(examples: Iterable[tuple[str, float]], labels: int | None, rate: float, seed: int) -> BagBaseline:
    texts, answers = _sample(examples, seed)
    defaults = bag_defaults(len(texts), sum(map(len, texts)), rate=rate)
    kind = BagRegressorConfig if labels is None else BagConfig
    model = Bag(kind(**defaults["model"]), labels or 1)
    options = FitOptions(**defaults["train"], batch_tokens=1, seed=seed, threads=1)
    fit = BagFit(model, PlainTexts(_cut(texts), answers, numbers=labels is None), options)
    for number in range(1, fit.total + 1):
        fit.step(number)
    return BagBaseline(model, len(texts))


def _cut(texts: Sequence[str]) -> list[str]:
    return [text[:MAX_TEXT_CHARACTERS] for text in texts]


def _sample(examples: Iterable[tuple[str, float]], seed: int) -> tuple[list[str], list[float]]:
    """All texts if they are not too long together, else a random part: whenever there are too many, half of them are
    dropped."""
    random, share = np.random.default_rng(seed), 1.0
    kept: list[tuple[float, str, float]] = []
    characters = 0
    for text, label in examples:
        chance = random.random()
        if chance >= share:
            continue
        kept.append((chance, text, label))
        characters += len(text)
        while characters > MAX_CHARACTERS and len(kept) > 1:
            share /= 2
            kept = [item for item in kept if item[0] < share]
            characters = sum(len(text) for _, text, _ in kept)
    return [text for _, text, _ in kept], [label for *_, label in kept]
