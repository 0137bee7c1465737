"""The probabilities of n-gram models: by hand, against a plain implementation, and as distributions."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from weft.models.ngram.smoothing import FALLBACK_DISCOUNTS, discounts
from weft.phrasebook.corpus import draw_phrase
from weft.text import EOS, MASK, PAD, SOS, UNK

A, B, C = 5, 6, 7
TEXTS = [[A, B], [A, C]]
"""<s> a b </s>, <s> a c </s>: five words can follow, the unknown one and the end included."""

SMOOTHINGS = [{"kind": "kneser_ney"}, {"kind": "add_k", "k": 0.3}, {"kind": "none"}]


def after(model, *tokens):
    """The probabilities (V,) of the next token after these."""
    return model.output(model(torch.tensor([tokens])))[0, -1].exp()


@pytest.mark.covers("M1")
def test_kneser_ney_by_hand(fit):
    """Too little text to estimate discounts, so D = 0.5, 1, 1.5. Different words before a, b, c: 1, before </s>: 2.

    P(a) = (1 - 0.5) / 5 + γ / 5 = 0.2 with γ = (3 · 0.5 + 1 · 1) / 5 = 0.5
    P(</s>) = (2 - 1) / 5 + 0.1;  P(<unk>) = 0.1
    P(a|<s>) = (2 - 1) / 2 + 0.5 · 0.2;  P(b|a) = (1 - 0.5) / 2 + 0.5 · 0.2;  P(</s>|b) = 0.5 + 0.5 · 0.3
    """
    model, notes = fit(TEXTS, 8, order=2)
    assert "the 1-grams have no usable counts of counts" in notes[0]
    assert "discounts are 0.5, 1, 1.5" in notes[1]
    begin, a, b, unknown = after(model, SOS), after(model, SOS, A), after(model, A, B), after(model, UNK)
    assert_close(begin, torch.tensor([0, 0.05, 0, 0.15, 0, 0.6, 0.1, 0.1]))
    assert_close(a, torch.tensor([0, 0.05, 0, 0.15, 0, 0.1, 0.35, 0.35]))
    assert b[EOS].item() == pytest.approx(0.65)
    assert_close(unknown, torch.tensor([0, 0.1, 0, 0.3, 0, 0.2, 0.2, 0.2]))  # that of the empty context


@pytest.mark.covers("M1")
def test_adding_k_by_hand(fit):
    model, _ = fit(TEXTS, 8, order=2, smoothing={"kind": "add_k", "k": 0.5})
    assert_close(after(model, SOS, A), torch.tensor([0, 1 / 9, 0, 1 / 9, 0, 1 / 9, 1 / 3, 1 / 3]))
    assert_close(after(model, UNK)[[UNK, EOS, A, B, C]], torch.full((5,), 0.2))


@pytest.mark.covers("M1")
def test_without_smoothing_by_hand(fit):
    model, _ = fit(TEXTS, 8, order=2, smoothing={"kind": "none"})
    assert_close(after(model, SOS), torch.tensor([0.0, 0, 0, 0, 0, 1, 0, 0]))
    assert_close(after(model, SOS, A), torch.tensor([0, 0, 0, 0, 0, 0, 0.5, 0.5]))
    assert_close(after(model, UNK), torch.tensor([0, 0, 0, 1 / 3, 0, 1 / 3, 1 / 6, 1 / 6]))  # an unseen context
    hidden = model(torch.tensor([[SOS, A]]))[0]
    assert model.output.loss(hidden, torch.tensor([A, B])).item() == pytest.approx(math.log(2))
    assert model.output.loss(hidden, torch.tensor([A, A])).item() == math.inf
    assert model.can_be_infinite


def test_discounts_by_hand():
    """t = 10, 5, 3, 2: Y = 10 / 20, D_1 = 1 - 2 Y · 5 / 10, D_2 = 2 - 3 Y · 3 / 5, D_3 = 3 - 4 Y · 2 / 3."""
    a = np.repeat([0, 1, 2, 3, 4, 9], [7, 10, 5, 3, 2, 4])
    assert discounts(a) == pytest.approx((0.5, 1.1, 5 / 3))
    assert discounts(a[a != 3]) is None
    assert discounts(np.repeat([1, 2, 3, 4], [1, 1, 9, 1])) is None  # D_2 would be below 0


def reference(texts, vocabulary, order):
    """Interpolated modified Kneser-Ney as a function P(word, context), from dictionaries."""
    counts = defaultdict(Counter)
    for text in texts:
        whole = [SOS, *text, EOS]
        for n in range(1, order + 1):
            counts[n].update(tuple(whole[i : i + n]) for i in range(len(whole) - n + 1))
    adjusted = {order: dict(counts[order])}
    for n in range(1, order):
        before = Counter(gram[1:] for gram in counts[n + 1])
        adjusted[n] = {gram: counts[n][gram] if gram[0] == SOS else before[gram] for gram in counts[n]}
    adjusted[1].pop((SOS,))
    estimated = {}
    for n in range(1, order + 1):
        t = Counter(adjusted[n].values())
        found = None
        if t[1] and t[2] and t[3]:
            y = t[1] / (t[1] + 2 * t[2])
            found = [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
        estimated[n] = found if found and all(0 < d <= k for k, d in enumerate(found, 1)) else FALLBACK_DISCOUNTS

    def probability(word, context):
        n = len(context) + 1
        lower = probability(word, context[1:]) if context else 1 / (vocabulary - 3)
        own = {gram[-1]: a for gram, a in adjusted[n].items() if gram[:-1] == context}
        if not own:
            return lower
        discount = {w: estimated[n][min(a, 3) - 1] for w, a in own.items()}
        total = sum(own.values())
        first = (own[word] - discount[word]) / total if word in own else 0.0
        return first + sum(discount.values()) / total * lower

    return probability


def draw(seed, vocabulary, texts):
    """Texts with words of very different frequencies."""
    chance = random.Random(seed)
    weights = [1 / rank for rank in range(1, vocabulary - 4)]
    return [chance.choices(range(5, vocabulary), weights, k=chance.randrange(1, 15)) for _ in range(texts)]


@pytest.mark.covers("M1")
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("texts", [1, 4, 150])
def test_kneser_ney_equals_its_definition(fit, order, texts):
    vocabulary, chance = 30, random.Random(order)
    drawn = draw(texts, vocabulary, texts)
    model, _ = fit(drawn, vocabulary, order=order)
    probability = reference(drawn, vocabulary, order)
    contexts = [[SOS, *text[: chance.randrange(5)]] for text in drawn[:8]] + draw(99, vocabulary, 5)
    words = [token for token in range(vocabulary) if token not in (PAD, SOS, MASK)]
    for context in contexts:
        found = after(model, *context)[words]
        last = tuple(context[len(context) - min(len(context), order - 1) :])
        assert_close(found, torch.tensor([probability(word, last) for word in words]), atol=1e-6, rtol=1e-5)


@pytest.mark.covers("M1")
@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=lambda one: one["kind"])
@pytest.mark.parametrize("order", [1, 2, 4, 7])
def test_the_probabilities_after_a_thousand_random_contexts_sum_to_one(fit, order, smoothing):
    vocabulary, chance = 40, random.Random(order)
    model, _ = fit(draw(7, vocabulary, 200), vocabulary, order=order, smoothing=smoothing)
    contexts = torch.tensor([[chance.randrange(1, vocabulary) for _ in range(8)] for _ in range(1000)])
    logs = model.output(model(contexts)[:, -1])
    assert_close(logs.exp().sum(-1), torch.ones(1000), atol=1e-5, rtol=0)
    assert logs[:, [PAD, SOS, MASK]].isneginf().all()
    assert not logs.isnan().any()


@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=lambda one: one["kind"])
@pytest.mark.parametrize("order", [1, 3, 5])
def test_the_loss_of_targets_is_that_of_the_whole_distribution(fit, order, smoothing):
    vocabulary = 25
    model, _ = fit(draw(3, vocabulary, 60), vocabulary, order=order, smoothing=smoothing)
    texts = torch.tensor([[SOS, *text[:9]] for text in draw(5, vocabulary, 200) if len(text) > 8])
    hidden = model(texts[:, :-1])
    every = model.output(hidden).gather(2, texts[:, 1:, None]).squeeze(2)
    for row, targets, logs in zip(hidden, texts[:, 1:], every, strict=True):
        assert model.output.loss(row, targets).item() == pytest.approx(-logs.sum().item(), abs=1e-4)


@pytest.mark.covers("M1")
def test_kneser_ney_is_better_than_adding_k_and_than_lower_orders(fit):
    words: dict[str, int] = {}
    chance = random.Random(0)
    phrases = [draw_phrase(chance).english.split() for _ in range(1500)]
    texts = [[words.setdefault(word, len(words) + 5) for word in phrase] for phrase in phrases]
    held = [[SOS, *text, EOS] for text in texts[1200:]]
    padded = torch.tensor([[*text, *[PAD] * (20 - len(text))] for text in held])
    real = padded[:, 1:] != PAD

    def loss(order, smoothing):
        model, _ = fit(texts[:1200], len(words) + 5, order=order, smoothing=smoothing)
        return model.output.loss(model(padded[:, :-1])[real], padded[:, 1:][real]).item()

    by_order = [loss(order, {"kind": "kneser_ney"}) for order in (1, 2, 3)]
    assert by_order == sorted(by_order, reverse=True)
    assert all(by_order[-1] < loss(3, {"kind": "add_k", "k": k}) for k in (1.0, 0.1, 0.01, 0.001))
