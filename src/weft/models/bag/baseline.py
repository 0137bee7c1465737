"""A bag of n-grams that is fitted to texts in memory: a baseline of the reports of classify and regress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.models.bag.characters import read_characters
from weft.models.bag.config import NUMBER_RATE, BagConfig, BagRegressorConfig, BagSettings, bag_defaults
from weft.models.bag.fit import BagFit, PlainTexts, list_labels, only_targets
from weft.models.bag.model import Bag
from weft.models.bag.sgd import Labels
from weft.models.fitting import FitOptions
from weft.models.heads import decide_each

MAX_CHARACTERS: Final = 40_000_000
"""Characters of all texts together; of more, a random part is used."""

MAX_TEXT_CHARACTERS: Final = 20_000
"""Characters of a text that are read; the rest is ignored."""

Answer = TypeVar("Answer")
"""The answer of a text: the number of its label, those of several, or the number to predict."""


class BagBaseline(NamedTuple):
    """A fitted model, and the number of texts that it was fitted to."""

    model: Bag
    fitted: int

    def predict(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The likeliest label of each text (N)."""
        found: NDArray[np.int64] = self.model.logits(read_characters(_cut(texts))).argmax(-1).numpy()
        return found

    def decide(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which labels each text has (N, C): those with a probability of one half or more, of a bag of several."""
        found: NDArray[np.bool_] = decide_each(self.model.logits(read_characters(_cut(texts))), None).numpy()
        return found

    def numbers(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The number of each text (N), of a bag that predicts numbers."""
        found: NDArray[np.float64] = self.model.logits(read_characters(_cut(texts)))[:, 0].double().numpy()
        return found


def fit_bag(examples: Iterable[tuple[str, int]], labels: int, *, seed: int = 0) -> BagBaseline:
    """Fit a bag of n-grams with its default settings to texts, each with its label's number below `labels`."""
    texts, answers = _sample(examples, seed)
    return _fit(texts, list_labels([(answer,) for answer in answers]), BagConfig, labels, seed=seed)


def fit_many_bag(examples: Iterable[tuple[str, Sequence[int]]], labels: int, *, seed: int = 0) -> BagBaseline:
    """Fit a bag of n-grams with its default settings to texts, each with the numbers of any of so many labels."""
    texts, answers = _sample(examples, seed)
    return _fit(texts, list_labels(answers), BagConfig, labels, many=True, seed=seed)


def fit_number_bag(examples: Iterable[tuple[str, float]], *, seed: int = 0) -> BagBaseline:
    """Fit a bag of n-grams with its default settings to texts, each with its number, standardised."""
    texts, answers = _sample(examples, seed)
    targets = only_targets(np.array(answers, dtype=np.float32))
    return _fit(texts, targets, BagRegressorConfig, 1, rate=NUMBER_RATE, seed=seed)


def _fit(
    texts: list[str],
    labels: Labels,
    settings: type[BagSettings],
    outputs: int,
    *,
    rate: float = 1.0,
    many: bool = False,
    seed: int,
) -> BagBaseline:
    defaults = bag_defaults(len(texts), sum(map(len, texts)), rate=rate)
    model = Bag(settings(**defaults["model"]), outputs)
    options = FitOptions(**defaults["train"], batch_tokens=1, seed=seed, threads=1, many_labels=many)
    fit = BagFit(model, PlainTexts(_cut(texts), labels), options)
    for number in range(1, fit.total + 1):
        fit.step(number)
    return BagBaseline(model, len(texts))


def _cut(texts: Sequence[str]) -> list[str]:
    return [text[:MAX_TEXT_CHARACTERS] for text in texts]


def _sample(examples: Iterable[tuple[str, Answer]], seed: int) -> tuple[list[str], list[Answer]]:
    """All texts if they are not too long together, else a random part: whenever there are too many, half of them are
    dropped."""
    random, share = np.random.default_rng(seed), 1.0
    kept: list[tuple[float, str, Answer]] = []
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
