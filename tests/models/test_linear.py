"""The linear model on n-grams: counts as a plain program makes them, weights at the minimum, the same every time."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.models import fit_linear, linear
from weft.models.ngrams import count_ngrams


def plain_ngrams(text: str, *, characters: bool) -> Counter[tuple[str, ...]]:
    """Words, pairs and parts of words of a text of letters, blanks and full stops."""
    words = text.lower().replace(".", " . ").split()
    found: Counter[tuple[str, ...]] = Counter((word,) for word in words)
    found.update(pairwise(words))
    if characters:
        for word in (f" {word} " for word in words):
            for size in range(2, 6):
                found.update(("part", word[at : at + size]) for at in range(len(word) - size + 1))
    return found


@given(st.lists(st.text("abü. ", max_size=12), max_size=6), st.booleans())
def test_counts_are_those_of_a_plain_program(texts: list[str], characters: bool) -> None:
    counts = count_ngrams(texts, characters=characters)
    assert len(counts.starts) == len(texts) + 1
    hashed, plain = defaultdict(list), defaultdict(list)
    for number, text in enumerate(texts):
        own = slice(counts.starts[number], counts.starts[number + 1])
        for column, value in zip(counts.columns[own], counts.values[own], strict=True):
            hashed[column].append((number, int(value)))
        for ngram, value in plain_ngrams(text, characters=characters).items():
            plain[ngram].append((number, value))
    assert sorted(hashed.values()) == sorted(plain.values())


def test_a_text_has_the_same_ngrams_whatever_stands_beside_it() -> None:
    texts = ["", "Ärger im Büro", "ok", "一二三 四"]
    together = count_ngrams(texts, characters=True)
    for number, text in enumerate(texts):
        alone, own = count_ngrams([text], characters=True), slice(*together.starts[number : number + 2])
        assert alone.columns.tolist() == together.columns[own].tolist()
        assert alone.values.tolist() == together.values[own].tolist()


def made_up(count: int, seed: int = 0) -> list[tuple[str, int]]:
    """Three kinds of text told apart by two words, among words that say nothing."""
    draw = random.Random(seed)
    kinds = [["red", "green", "blue"], ["cat", "dog", "cow"], ["one", "two", "six"]]
    noise = [f"w{number}" for number in range(30)]
    rows = []
    for _ in range(count):
        label = draw.randrange(3)
        words = [*draw.choices(kinds[label], k=2), *draw.choices(noise, k=6)]
        draw.shuffle(words)
        rows.append((" ".join(words), label))
    return rows


def test_it_learns_what_words_tell() -> None:
    model = fit_linear(made_up(200), 3)
    test = made_up(100, seed=1)
    assert np.mean(model.predict([text for text, _ in test]) == [label for _, label in test]) > 0.97
    assert model.fitted == 200
    assert model.predict([]).shape == (0,)
    assert len(model.predict(["", "unheard of"])) == 2


def test_parts_of_words_tell_too() -> None:
    draw = random.Random(0)
    stems = ["".join(draw.choices("bdfgklmnprst", k=4)) for _ in range(120)]
    model = fit_linear([(stem + ("ova" if number % 2 else "sen"), number % 2) for number, stem in enumerate(stems)], 2)
    assert model.predict(["zzzova", "quxsen"]).tolist() == [1, 0]


def test_the_weights_are_those_of_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MAX_ITERATIONS", 200)
    rows = made_up(60)
    model = fit_linear(rows, 3)
    counts = count_ngrams([text for text, _ in rows], characters=model.characters)
    weighed = linear._weigh(counts, model.places, model.idf)
    dense = torch.zeros(60, len(model.idf))
    texts = np.repeat(np.arange(60), np.diff(weighed.starts.numpy(), append=len(weighed.columns)))
    dense[texts, weighed.columns.long()] = weighed.values
    assert torch.allclose(dense.norm(dim=1), torch.ones(60))
    weights, bias = model.weights.clone().requires_grad_(), model.bias.clone().requires_grad_()
    labels = torch.tensor([label for _, label in rows])
    loss = torch.nn.functional.cross_entropy(dense @ weights + bias, labels, reduction="sum")
    (loss + weights.square().sum() / (2 * linear.ERROR_WEIGHT)).backward()
    assert max(float(weights.grad.abs().max()), float(bias.grad.abs().max())) < 5e-3


def test_the_same_data_gives_the_same_model_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MAX_SHORT_CHARACTERS", 3000)
    monkeypatch.setattr(linear, "MAX_WEIGHTS", 300)
    first, second = (fit_linear(iter(made_up(400)), 3, seed=5) for _ in range(2))
    assert torch.equal(first.weights, second.weights)
    assert 20 < first.fitted < 100
    assert first.weights.numel() <= 300
