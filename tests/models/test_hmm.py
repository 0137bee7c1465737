"""Counts of a hidden Markov model, by hand."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import weft
from weft.data import Tagged
from weft.errors import RunError
from weft.models import FitOptions, Spelling
from weft.models.hmm import HiddenMarkovConfig
from weft.models.hmm.lexicon import KAPPA, THETA
from weft.models.hmm.shapes import SHAPES, classes_of, shapes_of
from weft.models.hmm.transitions import count_histories, deleted_weights, interpolate
from weft.run.folder.files import WEIGHTS
from weft.tasks import encode
from weft.tasks.tag import Tag, TaggedData, TaggedText

SENTENCES = [
    ("the dog runs", "D N V"),
    ("the cat sleeps", "D N V"),
    ("the dog sleeps", "D N V"),
    ("dogs run", "N V"),
    ("run", "V"),
]


def records(sentences=SENTENCES):
    return [Tagged(tuple(words.split()), tuple(tags.split())) for words, tags in sentences]


def fitted(config, sentences=SENTENCES):
    found = records(sentences)
    task = Tag(Tag.learn(found, TaggedText(min_count=1)), TaggedData(train="none"))
    examples = encode(task, found)
    model = Tag.build(config, task.codec)
    fit = model.fit(examples, FitOptions(epochs=1, rate=0.1, batch_tokens=64, seed=0, threads=1))
    assert fit.total == 1
    fit.step(1)
    return task, model, examples


def test_histories_are_counted_with_the_boundary_before_and_after():
    tags, lengths = np.array([0, 1, 1, 0]), np.array([3, 1])  # 0 1 1 and 0
    pairs = count_histories(tags, lengths, 2, order=1)
    assert pairs.tolist() == [[0, 1, 1], [0, 1, 1], [2, 0, 0]]
    triples = count_histories(tags, lengths, 2, order=2)
    assert triples.sum() == 6
    assert {tuple(map(int, key)): int(triples[tuple(key)]) for key in np.argwhere(triples)} == {
        (2, 2, 0): 2,
        (2, 0, 1): 1,
        (0, 1, 1): 1,
        (1, 1, 2): 1,
        (2, 0, 2): 1,
    }


def test_the_weights_of_deleted_interpolation_by_hand():
    """f(a, b) = [[3, 1], [0, 2]] with f(b) = [3, 3]. Of (0, 0) the pair predicts best: (3 - 1) / (4 - 1) against
    (3 - 1) / (6 - 1); of (1, 1) too: (2 - 1) / (2 - 1) against 2 / 5; of (0, 1) the single tag: 0 / 3 against 2 / 5."""
    pairs = np.array([[3.0, 1.0], [0.0, 2.0]])
    assert_allclose(deleted_weights([pairs.sum(0), pairs]), np.array([1 + 1, 1 + 5]) / 8)


@pytest.mark.parametrize("order", [1, 2])
def test_interpolated_probabilities_sum_to_one_and_none_is_zero(order):
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 9, 30)
    tags = generator.integers(0, 3, lengths.sum())
    tags[tags == 1] = 0  # a tag that never occurs
    found, weights = interpolate(count_histories(tags, lengths, 3, order=order))
    assert found.shape == (4,) * (order + 1)
    assert_allclose(found.sum(-1), 1.0)
    assert found.min() > 0
    assert_allclose(weights.sum(), 1.0)
    one, _ = interpolate(count_histories(tags[:1], np.array([1]), 3, order=order))
    assert_allclose(one.sum(-1), 1.0)


def test_the_tags_of_a_word_are_its_counts_mixed_with_those_of_its_ending():
    task, model, _ = fitted(HiddenMarkovConfig(suffix=1, rare=10))
    words = ["run", "barks", "xyz"]
    letters = task.characters.encode_many(words)
    size = max(map(len, letters))
    spelling = Spelling(
        torch.tensor([row + [0] * (size - len(row)) for row in letters]), torch.tensor(list(map(len, letters))), None
    )
    tags = dict(zip(task.codec.labels, range(3), strict=True))
    n, v = tags["N"], tags["V"]
    every = torch.tensor([3.0, 4.0, 5.0])  # D N V; all words are rare here
    root = (every + 1) / 15
    shape = (every + THETA * root) / (12 + THETA)
    guess = model.lexicon.by_ending(spelling)
    s = torch.zeros(3)
    s[n], s[v] = 1, 3  # dogs; runs, sleeps twice
    assert_close(guess[1], (s + THETA * shape) / (4 + THETA))
    assert_close(guess[2], shape)  # no word ends in z
    own = torch.zeros(3)
    own[v] = 2
    found = model.lexicon(torch.tensor(task.words.encode_words(words)), spelling)
    assert_close(found[0], (own + KAPPA * guess[0]) / (2 + KAPPA))
    assert_close(found[1:], guess[1:])


def test_shapes():
    words = ["house", "House", "HOUSE", "A", "well-known", "Anglo-Saxon", "1984", "B2B", "...", "İstanbul", "-", ""]
    characters = ["", *sorted(set("".join(words)))]
    ids = [[characters.index(letter) for letter in word] for word in words]
    table = torch.tensor([row + [0] * (11 - len(row)) for row in ids])
    found = shapes_of(classes_of(characters)[table], torch.tensor(list(map(len, words))))
    assert found.tolist() == [0, 1, 2, 1, 3, 4, 5, 6, 7, 1, 7, 7]
    assert int(found.max()) < SHAPES


@pytest.mark.covers("M3")
@pytest.mark.parametrize("order", [1, 2])
def test_viterbi_is_the_best_of_all_sequences_under_the_counted_probabilities(order):
    """The posterior of every sequence from the definition: transitions times P(t|w) / P(t)."""
    from itertools import product

    task, model, examples = fitted(HiddenMarkovConfig(order=order))
    batch = task.collate(examples, [0])
    found = task.distribution(model, batch)
    u = model.lexicon(
        batch.words[0], Spelling(batch.spellings[batch.spelled[0]], batch.spelling_lengths[batch.spelled[0]], None)
    )
    scores = {}
    for y in product(range(3), repeat=3):
        padded = (*[3] * order, *y, 3)
        steps = [model.transitions[padded[t : t + order + 1]] for t in range(4)]
        words = [u[t, tag] / model.prior[tag] for t, tag in enumerate(y)]
        scores[y] = float(torch.stack([*steps, *words]).double().log().sum())
    best = max(scores, key=lambda y: scores[y])
    assert tuple(found.best()[0].tolist()) == best
    total = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
    likelihood = found.log_likelihood(torch.tensor([best]))
    assert_close(likelihood, (scores[best] - total)[None].float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [{"suffix": 0}, {"rare": 0}, {"order": 1, "suffix": 0, "rare": 0}])
def test_without_endings_or_rare_words_it_still_tags(config):
    task, model, examples = fitted(HiddenMarkovConfig(**config))
    found = task.distribution(model, task.collate(examples, range(5)))
    assert torch.isfinite(found.log_probabilities()).all()


@pytest.mark.parametrize("sentences", [[("a b", "X Y")], [("a", "X"), ("b", "Y")]], ids=["one sentence", "two words"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_smallest_data(sentences, order):
    task, model, examples = fitted(HiddenMarkovConfig(order=order), sentences)
    found = task.distribution(model, task.collate(examples, range(len(sentences))))
    assert torch.isfinite(found.log_likelihood(task.collate(examples, range(len(sentences))).tags)).all()


WRONG = {
    "transitions": (lambda old: -old, "not above 0"),
    "prior": (lambda old: torch.zeros_like(old), "not above 0"),
    "lexicon.words.offsets": (lambda old: old.flip(0), "do not rise"),
    "lexicon.words.tags": (lambda old: old + 1, "of no tag"),
    "lexicon.endings.counts": (lambda old: 0 * old, "not above 0"),
    "lexicon.endings.offsets": (lambda old: old[1:], "not as many"),
    "lexicon.tree.keys": (lambda old: old.flip(0), "not in order"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_with_wrong_numbers_is_refused(tmp_path, name):
    """Numbers that the model uses as places of others are checked when a run is loaded."""
    path = tmp_path / "tags.txt"
    blocks = ("".join(f"{word} {tag}\n" for word, tag in zip(*map(str.split, pair), strict=True)) for pair in SENTENCES)
    path.write_text("\n".join(blocks), encoding="utf-8")
    data = {"train": str(path), "valid": str(path)}
    run = weft.train({"task": "tag", "data": data, "model": {"kind": "hmm"}}, out=tmp_path / "run", quiet=True)
    change, message = WRONG[name]
    weights = load_file(run.folder / WEIGHTS)
    save_file({**weights, name: change(weights[name]).contiguous()}, run.folder / WEIGHTS)
    manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["sha256"][WEIGHTS] = hashlib.sha256((run.folder / WEIGHTS).read_bytes()).hexdigest()
    (run.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match=message):
        weft.load(run.folder)
