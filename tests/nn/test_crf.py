"""The conditional random field against the enumeration of all sequences."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch.testing import assert_close

from weft.nn.crf import CRF, UNKNOWN_TAG, Chain, Legal, log_likelihood, log_marginals, log_partition, viterbi

LENGTHS = torch.tensor([4, 1, 3, 2])


def draw(labels: int = 3, *, batch: int = 4, time: int = 4) -> tuple[torch.Tensor, Chain]:
    torch.manual_seed(labels)
    u = 2 * torch.randn(batch, time, labels, dtype=torch.float64)
    return u, Chain(*(torch.randn(*shape, dtype=torch.float64) for shape in ((labels,), (labels, labels), (labels,))))


def enumerate_row(u: torch.Tensor, chain: Chain) -> dict[tuple[int, ...], torch.Tensor]:
    """The score of every sequence of one row u (T, L)."""
    found = {}
    for y in product(range(u.size(1)), repeat=len(u)):
        score = chain.start[y[0]] + chain.end[y[-1]] + sum(u[t, tag] for t, tag in enumerate(y))
        found[y] = score + sum(chain.transitions[i, j] for i, j in pairwise(y))
    return found


def every(u: torch.Tensor, chain: Chain) -> list[dict[tuple[int, ...], torch.Tensor]]:
    return [enumerate_row(row[:length], chain) for row, length in zip(u, LENGTHS.tolist(), strict=True)]


@pytest.mark.covers("M3")
def test_the_partition_is_the_sum_over_all_sequences_and_so_are_its_gradients():
    u, chain = draw()
    leaves = [part.clone().requires_grad_() for part in (u, *chain)]
    log_z = log_partition(leaves[0], LENGTHS, Chain(*leaves[1:]))
    plain = [part.clone().requires_grad_() for part in (u, *chain)]
    wanted = torch.stack([torch.stack(list(row.values())).logsumexp(0) for row in every(plain[0], Chain(*plain[1:]))])
    assert_close(log_z, wanted)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    (log_z * weights).sum().backward()
    (wanted * weights).sum().backward()
    for ours, theirs in zip(leaves, plain, strict=True):
        assert_close(ours.grad, theirs.grad)


def test_marginals_and_the_best_sequence_are_those_of_the_enumeration():
    u, chain = draw(4)
    logs, best = log_marginals(u, LENGTHS, chain), viterbi(u, LENGTHS, chain)
    for row, (scores, length) in enumerate(zip(every(u, chain), LENGTHS.tolist(), strict=True)):
        total = torch.stack(list(scores.values())).logsumexp(0)
        for t, tag in product(range(length), range(4)):
            share = torch.stack([score for y, score in scores.items() if y[t] == tag]).logsumexp(0) - total
            assert_close(logs[row, t, tag], share)
        assert tuple(best[row, :length].tolist()) == max(scores, key=lambda y: scores[y])
        assert not logs[row, length:].any()
        assert not best[row, length:].any()


def test_the_likelihood_of_tags_some_of_which_are_unknown_sums_over_those():
    u, chain = draw()
    tags = torch.tensor([[0, 1, UNKNOWN_TAG, 2], [1, 0, 0, 0], [UNKNOWN_TAG] * 3 + [0], [2, 2, 1, 1]])
    found = log_likelihood(u, tags, LENGTHS, chain)
    for row, (scores, length) in enumerate(zip(every(u, chain), LENGTHS.tolist(), strict=True)):
        known = tags[row, :length].tolist()
        fits = [s for y, s in scores.items() if all(k in (UNKNOWN_TAG, tag) for k, tag in zip(known, y, strict=True))]
        wanted = torch.stack(fits).logsumexp(0) - torch.stack(list(scores.values())).logsumexp(0)
        assert_close(found[row], wanted)
    whole = tags.clamp(min=0)
    fast = log_likelihood(u, whole, LENGTHS, chain, partial=False)
    assert_close(fast, log_likelihood(u, whole, LENGTHS, chain))


def test_what_is_illegal_has_no_probability_and_no_gradient_and_is_never_chosen():
    may = Legal(
        torch.tensor([True, False, True]), torch.ones(3, 3, dtype=torch.bool), torch.tensor([True, True, False])
    )
    may.transitions[0, 1] = False
    crf = CRF(3, legal=may)
    with torch.no_grad():
        crf.transitions[0, 1], crf.start[1] = 50.0, 50.0
    u = torch.randn(2, 5, 3, requires_grad=True)
    lengths = torch.tensor([5, 3])
    tags = torch.tensor([[2, 1, 0, 0, 1], [0, 2, 1, 0, 0]])
    tags[0, 4] = 0
    loss = -crf.log_likelihood(u, tags, lengths, partial=False).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(part.grad).all() for part in (u, *crf.parameters()))
    assert crf.transitions.grad[0, 1] == crf.start.grad[1] == crf.end.grad[2] == 0.0
    for row, length in zip(crf.decode(100 * u.detach(), lengths).tolist(), lengths.tolist(), strict=True):
        assert row[0] != 1
        assert row[length - 1] != 2
        assert (0, 1) not in list(pairwise(row[:length]))
    marginals = crf.log_marginals(u.detach(), lengths).exp()
    assert_close(marginals[0].sum(-1), torch.ones(5))
    assert marginals[0, 0, 1] == marginals[1, 2, 2] == 0.0


def test_padding_changes_no_row_and_a_row_without_words_has_the_probability_one():
    u, chain = draw()
    alone = log_partition(u[2:3, :3], torch.tensor([3]), chain)
    assert_close(log_partition(u, LENGTHS, chain)[2:3], alone)
    none = torch.tensor([0, 2, 0, 4])
    assert log_likelihood(u, torch.zeros(4, 4, dtype=torch.long), none, chain)[0] == 0.0
    assert log_partition(u[:, :0], torch.zeros(4, dtype=torch.long), chain).tolist() == [0.0] * 4
    assert viterbi(u[:, :0], torch.zeros(4, dtype=torch.long), chain).shape == (4, 0)
    assert log_marginals(u[:, :0], torch.zeros(4, dtype=torch.long), chain).shape == (4, 0, 3)


def test_scores_in_bfloat16_are_summed_in_float32():
    crf = CRF(3)
    u = torch.randn(2, 40, 3).bfloat16()
    tags, lengths = torch.randint(3, (2, 40)), torch.tensor([40, 33])
    exact = log_likelihood(u.double(), tags, lengths, Chain(*(part.double() for part in crf.chain)))
    assert_close(crf.log_likelihood(u, tags, lengths).double(), exact, rtol=1e-5, atol=1e-4)
    assert crf.log_marginals(u, lengths).dtype == torch.float32
