"""The bag of n-grams: n-grams as a plain program finds them, updates as the gradient says, C like the plain version."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from weft.models import Bag, BagConfig, fit_bag
from weft.models.bag import baseline, sgd
from weft.models.bag import fit as fitting
from weft.models.bag import ngrams as module
from weft.models.bag.characters import read_characters
from weft.models.bag.fit import BagFit, PlainTexts, list_labels, only_targets
from weft.models.bag.native import LIBRARY
from weft.models.bag.ngrams import NgramKinds, NgramVocabulary, SparseRows, find_ngrams
from weft.models.bag.ngrams_plain import count_plain, weigh_plain
from weft.models.bag.sgd import Labels, LinearUpdates
from weft.models.fitting import FitOptions

pytestmark = pytest.mark.covers("M2")

BUCKETS = 1 << 22
KINDS = [NgramKinds(2, 0, 0, BUCKETS), NgramKinds(2, 2, 5, BUCKETS), NgramKinds(4, 1, 3, BUCKETS)]
native = pytest.mark.skipif(LIBRARY.load() is None, reason="there is no C compiler")


def plain_ngrams(text: str, kinds: NgramKinds) -> Counter[tuple[str, ...]]:
    """The n-grams of a text of letters, blanks and full stops."""
    words = text.lower().replace(".", " . ").split()
    found: Counter[tuple[str, ...]] = Counter()
    for size in range(1, kinds.words + 1):
        found.update(tuple(words[at : at + size]) for at in range(len(words) - size + 1))
    for word in (f" {word} " for word in words if kinds.most):
        for size in range(kinds.least, kinds.most + 1):
            parts = (word[at : at + size] for at in range(len(word) - size + 1))
            found.update(("part", part) for part in parts if part != " ")
    return found


def as_dicts(rows: SparseRows) -> list[dict[int, float]]:
    return [
        dict(zip(rows.columns[a:b].tolist(), rows.values[a:b].tolist(), strict=True)) for a, b in pairwise(rows.starts)
    ]


@pytest.mark.parametrize("find", [find_ngrams, lambda *parts: SparseRows(*count_plain(*parts))], ids=["fast", "plain"])
@given(texts=st.lists(st.text("abü. ", max_size=12), min_size=1, max_size=6), number=st.integers(0, 2))
def test_ngrams_are_those_of_a_simple_program(find, texts, number):
    rows = find(read_characters(texts), KINDS[number])
    hashed, plain = defaultdict(list), defaultdict(list)
    for place, (text, counts) in enumerate(zip(texts, as_dicts(rows), strict=True)):
        for column, value in counts.items():
            hashed[column].append((place, int(value)))
        for ngram, value in plain_ngrams(text, KINDS[number]).items():
            plain[ngram].append((place, value))
    assert sorted(hashed.values()) == sorted(plain.values())


@native
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5), number=st.integers(0, 2), seed=st.integers(0, 9))
def test_the_c_finds_the_ngrams_and_weights_of_the_plain_version(texts, number, seed):
    characters, kinds = read_characters(texts), KINDS[number]._replace(buckets=50)
    plain = SparseRows(*count_plain(characters, kinds))
    assert as_dicts(find_ngrams(characters, kinds)) == as_dicts(plain)
    draw = np.random.default_rng(seed)
    rows = np.where(draw.random(50) < 0.7, draw.permutation(50), -1).astype(np.int32)
    vocabulary = NgramVocabulary(rows, draw.random(50).astype(np.float32) + 1)
    fast, slow = find_ngrams(characters, kinds, vocabulary), SparseRows(*weigh_plain(plain, *vocabulary))
    for one, other in zip(as_dicts(fast), as_dicts(slow), strict=True):
        assert one == pytest.approx(other, rel=1e-5)
        assert not one or sum(value * value for value in one.values()) == pytest.approx(1, rel=1e-5)


def test_a_text_has_the_same_ngrams_whatever_is_beside_it(monkeypatch):
    texts = ["", "Ärger im Büro", "ok", "一二三 四", "don't"]
    together = as_dicts(find_ngrams(read_characters(texts), KINDS[1]))
    assert together == [as_dicts(find_ngrams(read_characters([text]), KINDS[1]))[0] for text in texts]
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 4)
    assert as_dicts(find_ngrams(read_characters(texts), KINDS[1])) == together
    assert len(together[3]) == 4 + 3 + 4 * 3  # each character is a word: 4 words, 3 pairs, " 一", "一 " and " 一 "


def rows_and_labels(many: bool, seed: int = 0) -> tuple[SparseRows, Labels, torch.Tensor]:
    """Twelve sparse rows of 6 columns with labels of 3, and the same as a dense matrix."""
    draw = np.random.default_rng(seed)
    dense = (draw.random((12, 6)) * (draw.random((12, 6)) < 0.5)).astype(np.float32)
    texts, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(texts, minlength=12))])
    counts = draw.integers(0, 3, 12) if many else np.ones(12, dtype=np.int64)
    numbers = np.concatenate([draw.choice(3, count, replace=False) for count in counts]).astype(np.int64)
    labels = Labels(np.concatenate([[0], np.cumsum(counts)]), numbers)
    return SparseRows(starts, columns.astype(np.int32), dense[texts, columns]), labels, torch.from_numpy(dense)


def linear_updates(width: int, *, weighed: bool, many: bool) -> LinearUpdates:
    torch.manual_seed(0)
    output = torch.randn(3, width) if width else None
    class_weights = torch.tensor([[0.5, 2.0, 1.5], [1.0, 3.0, 0.5]] if many else [1.0, 3.0, 0.5]) if weighed else None
    return LinearUpdates(torch.randn(6, width or 3), output, torch.randn(3), class_weights, many)


@pytest.mark.parametrize(
    ("width", "weighed", "many"),
    [(0, False, False), (0, True, False), (4, False, False), (0, False, True), (4, True, False), (4, True, True)],
)
@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=native)], ids=["plain", "C"])
def test_an_update_is_a_step_against_the_gradient_of_the_loss(monkeypatch, plain, width, weighed, many):
    if plain:
        monkeypatch.setattr(type(LIBRARY), "load", lambda self: None)
    rows, labels, dense = rows_and_labels(many)
    made, expected = (
        linear_updates(width, weighed=weighed, many=many),
        linear_updates(width, weighed=weighed, many=many),
    )
    order, rates = np.array([3, 7, 1, 3]), (0.5, 0.1)
    found = made.run(rows, labels, order, rates=rates, threads=1)
    learned = [expected.weights] + ([] if expected.output is None else [expected.output])
    losses = []
    for place, row in enumerate(order):
        for tensor in learned:
            tensor.requires_grad_().grad = None
        h = dense[row] @ expected.weights
        z = expected.bias + (h if expected.output is None else expected.output @ h)
        own = torch.from_numpy(labels.numbers[labels.starts[row] : labels.starts[row + 1]])
        truth = torch.zeros(3).index_fill(0, own, 1.0)
        if many:
            each = torch.nn.functional.binary_cross_entropy_with_logits(z, truth, reduction="none")
            losses.append(each.mean().item())
            absent, present = expected.class_weights if weighed else torch.ones(2, 3)
            (each * torch.where(truth > 0, present, absent)).sum().backward()
        else:
            loss = torch.nn.functional.cross_entropy(z, own[0])
            losses.append(loss.item())
            (loss * (expected.class_weights[own[0]] if weighed else 1)).backward()
        rate = rates[0] + (rates[1] - rates[0]) * place / len(order)
        with torch.no_grad():
            for tensor in learned:
                tensor -= rate * tensor.grad
    assert found == pytest.approx(np.mean(losses), rel=1e-4)
    assert_close(made.weights, expected.weights.detach())
    if expected.output is not None:
        assert_close(made.output, expected.output.detach())


@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=native)], ids=["plain", "C"])
def test_an_update_for_a_number_is_a_step_against_half_the_squared_error(monkeypatch, plain, width):
    if plain:
        monkeypatch.setattr(type(LIBRARY), "load", lambda self: None)
    rows, _, dense = rows_and_labels(False)
    targets = np.random.default_rng(1).normal(size=12).astype(np.float32)
    torch.manual_seed(0)
    weights, output, bias = torch.randn(6, width or 1), torch.randn(1, width) if width else None, torch.randn(1)
    expected = [weights.clone(), *([] if output is None else [output.clone()])]
    made = LinearUpdates(weights, output, bias)
    order = np.array([3, 7, 1, 3])
    found = made.run(rows, only_targets(targets), order, rates=(0.5, 0.1), threads=1)
    losses = []
    for place, row in enumerate(order):
        for tensor in expected:
            tensor.requires_grad_().grad = None
        h = dense[row] @ expected[0]
        error = bias + (h if output is None else expected[1] @ h) - torch.from_numpy(targets)[row]
        losses.append(error.item() ** 2)
        (error.square() / 2).sum().backward()
        with torch.no_grad():
            for tensor in expected:
                tensor -= (0.5 - 0.1 * place) * tensor.grad
    assert found == pytest.approx(np.mean(losses), rel=1e-4)
    assert_close(weights, expected[0].detach())
    if output is not None:
        assert_close(output, expected[1].detach())


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


def fit(rows: list[tuple[str, int]], *, threads: int = 1, labels: int = 3, epochs: int = 5, **settings) -> Bag:
    model = Bag(BagConfig(**settings), labels)
    options = FitOptions(epochs=epochs, rate=1.0, batch_tokens=1, seed=0, threads=threads)
    labels = list_labels([[label] for _, label in rows])
    fitted = BagFit(model, PlainTexts([text for text, _ in rows], labels), options)
    for number in range(1, fitted.total + 1):
        fitted.step(number)
    return model


def accuracy(model: Bag, rows: list[tuple[str, int]]) -> float:
    found = model.logits(read_characters([text for text, _ in rows])).argmax(-1)
    return float((found == torch.tensor([label for _, label in rows])).float().mean())


@pytest.mark.parametrize(
    "settings", [{}, {"width": 8}, {"char_ngrams": [2, 5]}, {"min_count": 1, "word_ngrams": 1}], ids=str
)
def test_it_learns_what_words_tell(settings):
    assert accuracy(fit(made_up(400), epochs=20, **settings), made_up(100, seed=1)) > 0.97


def test_threads_that_update_side_by_side_learn_the_same(monkeypatch):
    monkeypatch.setattr(fitting, "SHARED_NGRAMS", 0)
    assert accuracy(fit(made_up(2000), threads=4), made_up(200, seed=1)) > 0.97


def test_texts_that_are_not_kept_in_memory_give_the_same_model(monkeypatch):
    rows = made_up(1200)
    kept = fit(rows, char_ngrams=[2, 3])
    monkeypatch.setattr(fitting, "MEMORY_NGRAMS", 0)
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 300)
    again = fit(rows, char_ngrams=[2, 3])
    assert torch.equal(kept.weights, again.weights)
    assert torch.equal(kept.buckets, again.buckets)


def test_parts_of_words_tell_of_words_that_are_new():
    draw = random.Random(0)
    stems = ["".join(draw.choices("bdfgklmnprst", k=4)) for _ in range(120)]
    model = fit_bag([(stem + ("ova" if number % 2 else "sen"), number % 2) for number, stem in enumerate(stems)], 2)
    assert model.predict(["zzzova", "quxsen"]).tolist() == [1, 0]
    assert model.fitted == 120
    assert model.predict([]).shape == (0,)


def test_a_text_without_known_ngrams_has_the_shares_of_the_labels():
    rows = [("red car", 0)] * 6 + [("blue sky", 1)] * 2
    model = fit(rows, labels=2)
    unknown = read_characters(["", "Ω", "unheard"])
    expected = torch.tensor([(6 + 1) / 10, (2 + 1) / 10]).expand(3, 2)
    assert_close(model.logits(unknown).softmax(-1), expected)
    known = model.logits(read_characters(["red sky"]))
    model.divide_logits(2.0)
    assert_close(model.logits(unknown).softmax(-1), expected)
    assert_close(model.logits(read_characters(["red sky"])), known / 2)


def test_only_frequent_ngrams_have_weights():
    rows = [("a b", 0), ("a c", 1), ("a b", 0), ("d", 1)]
    assert len(fit(rows, labels=2).buckets) == 3  # a, b and a+b are in two texts
    assert len(fit(rows, labels=2, min_count=1).buckets) == 6
    assert len(fit(rows, labels=2, max_ngrams=1).buckets) == 1
    assert len(fit([("x", 0), ("y", 1)], labels=2).buckets) == 2  # no n-gram is in two texts


def test_labels_in_their_thousands_have_vectors_instead_of_weights_for_each():
    rows = [(f"w{number}", number) for number in range(1000)] * 2
    model = fit(rows, labels=1000, epochs=12)
    assert model.weights.shape == (1000, 64)
    assert model.output.shape == (1000, 64)
    assert accuracy(model, rows[:200]) > 0.9


def test_the_same_data_gives_the_same_baseline_on_a_random_part_of_much_data(monkeypatch):
    monkeypatch.setattr(baseline, "MAX_CHARACTERS", 3000)
    first, second = (fit_bag(iter(made_up(400)), 3, seed=5) for _ in range(2))
    assert torch.equal(first.model.weights, second.model.weights)
    assert 20 < first.fitted < 100
    long, short = "red " * baseline.MAX_TEXT_CHARACTERS + "blue", "red"
    assert first.predict([long]).tolist() == first.predict([short]).tolist()


def test_without_a_compiler_the_model_is_the_same(monkeypatch):
    rows = made_up(150)
    fast = fit(rows, char_ngrams=[2, 4])
    monkeypatch.setattr(type(LIBRARY), "load", lambda self: None)
    monkeypatch.setattr(sgd.LinearUpdates, "run", _in_plain(sgd.LinearUpdates.run_plain))
    slow = fit(rows, char_ngrams=[2, 4])
    assert torch.equal(fast.buckets, slow.buckets)
    assert_close(fast.weights, slow.weights, atol=1e-4, rtol=1e-3)


def _in_plain(run_plain):
    return lambda self, rows, labels, order, *, rates, threads: run_plain(self, rows, labels, order, rates=rates)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"buckets": (4,), "weights": (4, 3), "idf": (4,)}, None),
        ({"buckets": (4,), "weights": (5, 3), "idf": (4,)}, "not equally many"),
        ({"buckets": (4,), "weights": (4, 2), "idf": (4,)}, "not equally many"),
        ({"buckets": (4,), "weights": (4, 3), "idf": (3,)}, "not equally many"),
        ({"buckets": (9,), "weights": (9, 3), "idf": (9,)}, "up to 8 n-grams"),
        ({"buckets": (2, 2), "weights": (4, 3), "idf": (4,)}, "up to 8 n-grams"),
        ({}, "up to 8 n-grams"),
    ],
)
def test_tensors_must_go_together(shapes, message):
    model = Bag(BagConfig(buckets=8), 3)
    sizes = {name: torch.Size(shape) for name, shape in shapes.items()}
    if message is None:
        model.allocate(sizes)
        assert model.weights.shape == (4, 3)
    else:
        with pytest.raises(ValueError, match=message):
            model.allocate(sizes)


@pytest.mark.parametrize("buckets", [[-1, 2], [3, 8], [3, 3], [5, 2]])
def test_buckets_must_be_ascending_and_in_range(buckets):
    model = Bag(BagConfig(buckets=8), 3)
    model.grow(2)
    model.buckets.copy_(torch.tensor([0, 7]))
    model.check()
    model.buckets.copy_(torch.tensor(buckets))
    with pytest.raises(ValueError, match="ascending numbers below 8"):
        model.check()


@pytest.mark.parametrize("sizes", [3, [3], [4, 2], [0, 2], [2, 3, 4]])
def test_sizes_of_character_ngrams_are_a_range(sizes):
    with pytest.raises(ValueError, match="range"):
        BagConfig(char_ngrams=sizes)
