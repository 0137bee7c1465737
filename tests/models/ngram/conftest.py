"""N-gram models of small texts, given as lists of token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from weft.data import Examples, Ragged
from weft.models import FitOptions, NgramConfig, NgramModel
from weft.text import EOS, SOS

Texts = Sequence[Sequence[int]]


def examples_of(rows: Texts) -> Examples:
    column = Ragged.from_lists(rows)
    return Examples({"tokens": column}, column.lengths)


@pytest.fixture
def examples() -> Callable[[Texts], Examples]:
    return examples_of


@pytest.fixture
def fit() -> Callable[..., tuple[NgramModel, tuple[str, ...]]]:
    """The model of some texts without their start and end tokens, and the notes of its training."""

    def fitted(texts: Texts, vocabulary: int, **settings: Any) -> tuple[NgramModel, tuple[str, ...]]:
        model = NgramModel(NgramConfig.model_validate(settings), vocabulary)
        options = FitOptions(epochs=1, rate=1.0, batch_tokens=1, seed=0, threads=1)
        fit = model.fit(examples_of([[SOS, *text, EOS] for text in texts]), options)
        notes = [note for part in range(1, fit.total + 1) for note in fit.step(part).notes]
        return model, tuple(notes)

    return fitted
