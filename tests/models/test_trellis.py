"""Sequences in which a tag depends on two others, against the enumeration of all of them."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.testing import assert_close

from weft.models.hmm import trellis
from weft.models.hmm.trellis import PairTags, Trellis
from weft.nn.crf import UNKNOWN_TAG

L, LENGTHS = 3, [4, 1, 2, 3]


@pytest.fixture(params=[1 << 23, 1], ids=["together", "row by row"])
def drawn(request, monkeypatch):
    monkeypatch.setattr(trellis, "MAX_STATE_NUMBERS", request.param)
    torch.manual_seed(0)
    scores = torch.randn(L + 1, L + 1, L + 1, dtype=torch.float64).log_softmax(-1)
    scores[0, 1, 2] = scores[L, 2, 0] = -torch.inf
    u = 2 * torch.randn(4, 4, L, dtype=torch.float64)
    return u, scores, PairTags(u, torch.tensor(LENGTHS), Trellis(scores[..., :L], scores[:, :L, L]))


def enumerate_row(u, scores):
    """The score of every sequence of one row u (T, L); scores has the boundary as one more tag."""
    found = {}
    for y in product(range(L), repeat=len(u)):
        padded = (L, L, *y, L)
        steps = sum(scores[padded[t : t + 3]] for t in range(len(y) + 1))
        found[y] = steps + sum(u[t, tag] for t, tag in enumerate(y))
    return found


def rows_of(u, scores):
    return [enumerate_row(row[:length], scores) for row, length in zip(u, LENGTHS, strict=True)]


@pytest.mark.covers("M3")
def test_the_best_sequence_and_the_marginals(drawn):
    u, scores, tags = drawn
    best, logs = tags.best(), tags.log_probabilities()
    for row, (found, length) in enumerate(zip(rows_of(u, scores), LENGTHS, strict=True)):
        assert tuple(best[row, :length].tolist()) == max(found, key=lambda y: found[y])
        total = torch.stack(list(found.values())).logsumexp(0)
        for t, tag in product(range(length), range(L)):
            share = torch.stack([score for y, score in found.items() if y[t] == tag]).logsumexp(0) - total
            assert_close(logs[row, t, tag], share.float())


def test_the_likelihood_of_tags_some_of_which_are_unknown(drawn):
    u, scores, tags = drawn
    given = torch.tensor([[1, 1, UNKNOWN_TAG, 2], [1, 0, 0, 0], [UNKNOWN_TAG, 0, 0, 0], [2, 2, 1, 1]])
    likelihood = tags.log_likelihood(given)
    for row, (found, length) in enumerate(zip(rows_of(u, scores), LENGTHS, strict=True)):
        known = given[row, :length].tolist()
        fits = [s for y, s in found.items() if all(k in (UNKNOWN_TAG, tag) for k, tag in zip(known, y, strict=True))]
        wanted = torch.stack(fits).logsumexp(0) - torch.stack(list(found.values())).logsumexp(0)
        assert_close(likelihood[row], wanted.float())


def test_a_batch_without_words(drawn):
    _, scores, _ = drawn
    none = PairTags(torch.zeros(2, 0, L), torch.zeros(2, dtype=torch.long), Trellis(scores[..., :L], scores[:, :L, L]))
    assert none.best().shape == (2, 0)
    assert none.log_probabilities().shape == (2, 0, L)
    assert none.log_likelihood(torch.zeros(2, 0, dtype=torch.long)).tolist() == [0.0, 0.0]
