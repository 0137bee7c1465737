"""Word vectors follow the gradient of their objective, in C as in Python, and words with the same neighbours meet."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from weft.data import Examples, Ragged
from weft.errors import DataError
from weft.models.fitting import FitOptions
from weft.models.vectors import CbowSettings, SkipGramSettings, WordVectors, heldout_loss, nearest, solve_analogies
from weft.models.vectors import native as native_training
from weft.models.vectors.fit import cut_rows
from weft.models.vectors.native import train_native
from weft.models.vectors.plain import Centre, train_centre, train_plain
from weft.models.vectors.sampling import Random, build_noise, keep_shares, noise_shares
from weft.text.grams import ngram_buckets, word_parts

SPECIALS = 5
KINDS = {"skipgram": SkipGramSettings, "cbow": CbowSettings}


class Vocabulary(list[str]):
    def tokens(self, ids):
        return [self[number] for number in ids]


WORDS = Vocabulary([f"<{number}>" for number in range(SPECIALS)] + [f"word{number * 7}" for number in range(40)])


def examples(rows):
    return Examples({"tokens": Ragged.from_lists(rows)}, np.array([len(row) for row in rows]))


def some_text(rows=60):
    random = np.random.default_rng(0)
    return [
        (random.zipf(1.3, size=random.integers(0, 30)) % (len(WORDS) - SPECIALS) + SPECIALS).tolist()
        for _ in range(rows)
    ]


def options(**changed):
    return FitOptions(**{"epochs": 2, "rate": 0.1, "batch_tokens": 300, "seed": 3, "threads": 1} | changed)


def build(kind="skipgram", *, rows=None, seed=1, fit=None, **settings):
    torch.manual_seed(seed)
    given = {"embedding": 19, "window": 3, "negatives": 4, "subsample": 0.05} | settings
    model = WordVectors(KINDS[kind](**given), WORDS)
    return model.fit(examples(rows or some_text()), fit or options())


@pytest.mark.usefixtures("a_compiler")
@pytest.mark.parametrize("ngrams", [[], [2, 3]])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.covers("T6")
def test_the_c_code_trains_as_the_plain_version(kind, ngrams):
    settings = {"char_ngrams": ngrams, "buckets": 50} if ngrams else {}
    fast, plain = (build(kind, **settings) for _ in range(2))
    assert fast.total > 4
    for number in range(1, fast.total + 1):
        train_native(fast, fast.part(number))
        train_plain(plain, plain.part(number))
    assert plain.model.outputs.abs().max() > 0.1
    torch.testing.assert_close(fast.model.inputs, plain.model.inputs, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(fast.model.outputs, plain.model.outputs, atol=2e-5, rtol=1e-4)


@pytest.mark.usefixtures("a_compiler")
def test_threads_of_the_c_code_share_the_work(threads):
    fit = build(fit=options(threads=threads, epochs=20))
    first, *_, last = [fit.step(number).loss for number in range(1, fit.total + 1)]
    assert last < first < 5 * np.log(2) + 0.01
    assert torch.isfinite(fit.model.inputs).all()


@pytest.mark.parametrize("ngrams", [[], [2, 3]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_centre_changes_vectors_by_the_gradient_of_its_loss(kind, ngrams):
    """X += rate ∂/∂X and O += rate ∂/∂O of Σ log σ(±x·o); each part of a mean gets the change of the mean."""
    fit = build(kind, **({"char_ngrams": ngrams, "buckets": 50} if ngrams else {}))
    model, rate = fit.model, 0.01
    model.outputs.normal_()
    near, word, noise = [7, 9, 11], 20, [30, 31]
    pairs = ngrams and kind == "skipgram"
    centre = Centre(near, [*(near if pairs else [word]), *noise], len(near) if pairs else 1)
    inputs, outputs = model.inputs.clone().requires_grad_(), model.outputs.clone().requires_grad_()

    def rows_of(words):
        starts, rows = fit.parts if fit.parts else (np.arange(len(WORDS) + 1), np.arange(len(WORDS)))
        return [int(row) for one in words for row in rows[starts[one] : starts[one + 1]]]

    sources = [rows_of(near)] if kind == "cbow" else [rows_of([word])] if ngrams else [rows_of([one]) for one in near]
    true = near if pairs else [word]
    loss = sum(
        F.softplus(-(outputs[true] @ inputs[rows].mean(0))).sum()
        + (len(true) if pairs else 1) * F.softplus(outputs[noise] @ inputs[rows].mean(0)).sum()
        for rows in sources
    )
    gradients = torch.autograd.grad(loss, (inputs, outputs))
    parts = len(sources[0])  # the gradient of a part is that of the mean divided by their number
    before = model.inputs.clone(), model.outputs.clone()
    assert train_centre(fit, word, centre, rate) == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(before[0] - model.inputs, rate * parts * gradients[0], atol=1e-6, rtol=1e-3)
    torch.testing.assert_close(before[1] - model.outputs, rate * gradients[1], atol=1e-6, rtol=1e-3)


@pytest.mark.covers("T6")
def test_words_with_the_same_neighbours_become_neighbours():
    """Words of one topic never stand beside those of the other."""
    random = np.random.default_rng(1)
    topics = [range(SPECIALS, SPECIALS + 20), range(SPECIALS + 20, SPECIALS + 40)]
    rows = [random.choice(topics[number % 2], size=12).tolist() for number in range(400)]
    fit = build(rows=rows, embedding=16, subsample=0.0, fit=options(epochs=10, rate=0.05, batch_tokens=1000))
    if not native_training.serves(fit.model):
        pytest.skip("no compiler")
    for number in range(1, fit.total + 1):
        fit.step(number)
    for topic in topics:
        found = nearest(fit.model, fit.model.table()[topic[0]], n=19, without=[topic[0]])
        assert {WORDS.index(word) for word, _ in found} == set(topic[1:])
        assert found[-1].similarity < found[0].similarity <= 1.0


def test_the_rate_falls_with_the_tokens_read():
    fit = build(fit=options(epochs=4, rate=0.5))
    rates = [fit.step(number).rate for number in range(1, fit.total + 1)]
    tokens = np.cumsum([len(fit.part(number).tokens) for number in range(1, fit.total + 1)])
    assert tokens[-1] == 4 * fit.tokens
    assert rates[:-1] == pytest.approx((0.5 * (1 - tokens / tokens[-1]))[:-1].tolist())


def test_parts_cover_the_text_in_order():
    fit = build()
    found = np.concatenate([fit.part(number).tokens for number in range(1, fit.every + 1)])
    assert found.tolist() == [word for row in some_text() for word in row]
    assert cut_rows(np.array([3, 0, 5, 2]), 4).tolist() == [0, 3, 4]


def test_noise_and_subsampling_have_the_probabilities_of_word2vec():
    counts = np.array([0, 16, 81, 0, 1, 10_000])
    noise = build_noise(counts)
    found = np.zeros(len(counts))
    np.add.at(found, noise.first, noise.share / len(noise.share))
    np.add.at(found, noise.second, (1 - noise.share) / len(noise.share))
    np.testing.assert_allclose(found, np.array([0, 8, 27, 0, 1, 1000]) / 1036, atol=1e-6)
    np.testing.assert_allclose(noise_shares(counts), found, atol=1e-6)
    # f = 10000 / 10098, t = 0.01: √(t / f) + t / f
    assert keep_shares(counts, 0.01)[5] == pytest.approx(0.1 * np.sqrt(1.0098) + 0.010098, rel=1e-5)
    assert keep_shares(counts, 0.01)[4] == 1.0
    assert keep_shares(counts, 0.0).tolist() == [1.0] * 6


def test_random_numbers_are_uniform():
    random = Random(7, 0)
    drawn = [random.below(5) for _ in range(5000)]
    assert np.bincount(drawn, minlength=5).min() > 900
    assert 0.48 < np.mean([random.unit() for _ in range(5000)]) < 0.52
    assert Random(7, 1).next() != Random(7, 0).next()


def test_ngrams_are_those_of_the_word_between_marks():
    """<ab>: <ab, ab> of three letters; the hash of FNV-1a is published for "a"."""
    assert ngram_buckets("ab", sizes=[3, 3], buckets=1 << 32) == [fnv(b"<ab"), fnv(b"ab>")]
    assert fnv(b"a") == 0xE40C292C
    assert ngram_buckets("é", sizes=[1, 2], buckets=1 << 32) == [
        fnv(text.encode()) for text in ("<", "<é", "é", "é>", ">")
    ]
    assert ngram_buckets("a", sizes=[3, 6], buckets=9) == []  # <a> itself is no n-gram
    starts, rows = word_parts(["ab", "a"], sizes=[3, 3], buckets=1 << 30)
    assert starts.tolist() == [0, 3, 4]
    assert rows[[0, 3]].tolist() == [0, 1]


def fnv(data):
    found = 2166136261
    for byte in data:
        found = (found ^ byte) * 16777619 % 2**32
    return found


@pytest.mark.parametrize("ngrams", [[], [2, 3]])
@pytest.mark.parametrize("kind", KINDS)
def test_the_held_out_loss_is_the_mean_over_all_windows(kind, ngrams, monkeypatch):
    monkeypatch.setattr("weft.models.vectors.heldout.NOISE_WORDS", 4000)
    fit = build(kind, **({"char_ngrams": ngrams, "buckets": 50} if ngrams else {}))
    model = fit.model
    model.inputs.normal_()
    model.outputs.normal_()
    rows = [[7, 8, 9, 10, 7], [12], [], [20, 21]]
    shares = torch.from_numpy(noise_shares(model.counts.numpy())).float()
    starts, parts = fit.parts if fit.parts else (np.arange(len(WORDS) + 1), np.arange(len(WORDS)))
    total, count = 0.0, 0
    for row in rows:
        for place, word in enumerate(row):
            near = row[max(0, place - 3) : place] + row[place + 1 : place + 4]
            if kind == "cbow":
                sources, target = [near] if near else [], word
            else:
                sources, target = [[other] for other in near], word
            for source in sources:
                chosen = [int(part) for one in source for part in parts[starts[one] : starts[one + 1]]]
                x = model.inputs[chosen].mean(0)
                noise = (shares * F.softplus(model.outputs @ x)).sum()
                total += float(F.softplus(-model.outputs[target] @ x) + 4 * noise)
                count += 1
    padded = torch.tensor([row + [0] * (5 - len(row)) for row in rows])
    loss, found = heldout_loss(model, padded, torch.tensor([len(row) for row in rows]))
    assert found == count
    assert float(loss) == pytest.approx(total, rel=2e-3)
    alone = sum(
        float(heldout_loss(model, torch.tensor([row], dtype=torch.long), torch.tensor([len(row)]))[0]) for row in rows
    )
    assert float(loss) == pytest.approx(alone, rel=1e-5)


def test_analogies_are_solved_by_addition():
    fit = build(embedding=3, subsample=0.0)
    model = fit.model
    a, b, c, d, other = range(SPECIALS, SPECIALS + 5)
    model.counts.zero_()
    model.counts[[a, b, c, d, other]] = 1
    for word, vector in {a: (1, 0, 0), b: (1, 1, 0), c: (0, 0, 1), d: (0, 1, 1), other: (1, 0, 1)}.items():
        model.inputs[word] = torch.tensor(vector).float()
    model.updates += 1
    assert solve_analogies(model, [(a, b, c), (c, d, a)]) == [d, b]


def test_an_unseen_word_is_the_mean_of_its_ngrams():
    model = build(char_ngrams=[2, 3], buckets=50).model
    rows = [len(WORDS) + bucket for bucket in ngram_buckets("new", sizes=[2, 3], buckets=50)]
    torch.testing.assert_close(model.unseen("new"), model.inputs[rows].mean(0))
    assert build().model.unseen("new") is None
    starts, parts = model.parts
    torch.testing.assert_close(model.table()[9], model.inputs[parts[starts[9] : starts[10]].tolist()].mean(0))


def test_without_a_compiler_the_plain_version_trains(monkeypatch):
    monkeypatch.setattr(native_training, "serves", lambda model: False)
    fit = build()
    first = fit.step(1)
    assert first.loss < 5 * np.log(2) + 0.01
    assert "no C compiler" in first.notes[0]
    assert fit.step(2).notes == ()


@pytest.mark.parametrize(
    ("rows", "message"), [([[7, 7, 7]], "one word"), ([[], []], "no word"), ([[7], [8]], "beside")]
)
def test_too_little_text_is_an_error(rows, message):
    with pytest.raises(DataError, match=message):
        build(rows=rows)
