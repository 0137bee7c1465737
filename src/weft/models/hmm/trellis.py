"""Sequences of tags in which each tag depends on the two before it: their probabilities and the likeliest one.

    s(y) = Σ_t u_t[y_t] + Σ_t A[y_{t-2}, y_{t-1}, y_t] + e[y_{T-1}, y_T]            p(y) = exp(s(y) - log Z)

    α_t[j, k] = u_t[k] + log Σ_i exp(α_{t-1}[i, j] + A[i, j, k])
    β_t[j, k] = log Σ_l exp(A[j, k, l] + u_{t+1}[l] + β_{t+1}[k, l])            β_T = e

The two tags before the first one are the boundary, number L. A state is a pair of tags, (L + 1, L): only the first of a
pair may be the boundary. A sum over i is a product of matrices for each j, in float64.        B batch, T time, L tags
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from weft.models.tagging import TagDistribution
from weft.nn import length_mask
from weft.nn.crf import LOWEST, pin

MAX_STATE_NUMBERS: Final = 1 << 20
"""Numbers that some rows take together, of all their steps or of one maximum; other rows are computed after them."""


class Trellis(NamedTuple):
    """The scores A (L + 1, L + 1, L) of a tag after two others, and e (L + 1, L) of the end after two tags."""

    transitions: Tensor
    end: Tensor

    @property
    def labels(self) -> int:
        return self.end.size(1)


class PairTags(TagDistribution):
    """p(y) of such sequences over scores u (B, T, L) of single words."""

    chained = True

    def __init__(self, u: Tensor, lengths: Tensor, trellis: Trellis) -> None:
        self.u, self.lengths, self.trellis = u.double(), lengths, trellis

    def best(self) -> Tensor:
        return self._rows(viterbi, self.u)

    def log_probabilities(self) -> Tensor:
        return self._rows(log_marginals, self.u).float()

    def log_likelihood(self, tags: Tensor, *, partial: bool = True) -> Tensor:
        return (self._rows(log_partition, pin(self.u, tags)) - self._rows(log_partition, self.u)).float()

    def _rows(self, function: Callable[[Tensor, Tensor, Trellis], Tensor], u: Tensor) -> Tensor:
        """Apply a function to a few rows at a time, so that its numbers fit into memory."""
        return torch.cat([function(u[some], self.lengths[some], self.trellis) for some in self._parts()])

    def _parts(self) -> Iterator[slice]:
        rows, time, labels = self.u.shape
        each = (labels + 1) * labels * max(labels, 2 * time)
        size = max(1, MAX_STATE_NUMBERS // each)
        return (slice(first, first + size) for first in range(0, max(rows, 1), size))


def log_partition(u: Tensor, lengths: Tensor, trellis: Trellis) -> Tensor:
    """u (B, T, L), lengths (B) -> log Z (B); that of a row without words is 0."""
    if u.size(1) == 0:
        return u.sum((1, 2))
    for alpha in _forward(u, lengths, trellis):  # noqa: B007
        pass
    return _close(alpha, lengths, trellis)


def log_marginals(u: Tensor, lengths: Tensor, trellis: Trellis) -> Tensor:
    """u (B, T, L), lengths (B) -> log p(y_t = k) (B, T, L); zeros past a row's end."""
    if u.size(1) == 0:
        return u
    alphas = list(_forward(u, lengths, trellis))
    log_z = _close(alphas[-1], lengths, trellis)[:, None]
    real = length_mask(lengths, u.size(1))
    beta = trellis.end.expand(len(u), -1, -1)
    found = []
    matrix, shift = _exponents(trellis.transitions[:, : trellis.labels].permute(1, 2, 0))  # (k, l, j)
    for t in range(u.size(1) - 1, -1, -1):
        found.append((alphas[t] + beta).logsumexp(1) - log_z)
        onward = (u[:, t, None, :] + beta)[:, : trellis.labels]  # (B, k, l)
        reached = _product(onward.transpose(0, 1), matrix, shift).permute(1, 2, 0)  # (B, j, k)
        beta = torch.where(real[:, t, None, None], reached, beta)
    return torch.stack(found[::-1], dim=1).masked_fill(~real[..., None], 0.0)


def viterbi(u: Tensor, lengths: Tensor, trellis: Trellis) -> Tensor:
    """u (B, T, L), lengths (B) -> the likeliest tags (B, T); 0 past a row's end.

    A step keeps only the maxima. The way back finds again which tag each came from, for one state of each row.
    """
    batch, time, labels = u.shape
    if time == 0:
        return torch.zeros(batch, 0, dtype=torch.long, device=u.device)
    real, transitions = length_mask(lengths, time), trellis.transitions[:, :labels].float()
    best = [_first(u, trellis).float()]
    for t in range(1, time):
        reached = (best[-1][..., None] + transitions).amax(1)  # over i of (B, i, j, k)
        there = real[:, t, None, None]
        best.append(torch.where(there, _with_boundary(reached + u[:, t, None, :].float()), best[-1]))
    state = (best[-1] + trellis.end.float()).flatten(1).argmax(1)
    before, tag = state // labels, state % labels
    tags, rows = [tag], torch.arange(batch, device=u.device)
    for t in range(time - 1, 0, -1):
        # The boundary is before the first word only, and nothing is before that.
        known = before.clamp(max=labels - 1)
        source = (best[t - 1][rows, :, known] + transitions[:, known, tag].T).argmax(1)
        tag, before = torch.where(real[:, t], before, tag), torch.where(real[:, t], source, before)
        tags.append(tag)
    return torch.stack(tags[::-1], dim=1).masked_fill(~real, 0)


def _first(u: Tensor, trellis: Trellis) -> Tensor:
    """α_1 (B, L + 1, L): before the first tag is the boundary."""
    labels = trellis.labels
    alpha = u.new_full((len(u), labels + 1, labels), -torch.inf)
    alpha[:, labels] = trellis.transitions[labels, labels] + u[:, 0]
    return alpha


def _with_boundary(pairs: Tensor) -> Tensor:
    """pairs (B, L, L) -> (B, L + 1, L): after the first word no tag follows the boundary."""
    return torch.cat([pairs, pairs.new_full((len(pairs), 1, pairs.size(2)), -torch.inf)], dim=1)


def _forward(u: Tensor, lengths: Tensor, trellis: Trellis) -> Iterator[Tensor]:
    """Yield α_t (B, L + 1, L); past a row's end that of its last word."""
    real = length_mask(lengths, u.size(1))
    matrix, shift = _exponents(trellis.transitions[:, : trellis.labels].transpose(0, 1))  # (j, i, k)
    alpha = _first(u, trellis)
    yield alpha
    for t in range(1, u.size(1)):
        reached = _product(alpha.permute(2, 0, 1), matrix, shift).transpose(0, 1) + u[:, t, None, :]
        alpha = torch.where(real[:, t, None, None], _with_boundary(reached), alpha)
        yield alpha


def _exponents(logs: Tensor) -> tuple[Tensor, Tensor]:
    """exp(logs - shift) and the shift."""
    shift = logs.max().clamp(min=LOWEST)
    return (logs - shift).exp(), shift


def _product(logs: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """log Σ_m exp(logs[s, b, m]) matrix[s, m, n] + shift, for logs (S, B, M) and matrix (S, M, N) -> (S, B, N)."""
    most = logs.amax((0, 2), keepdim=True).clamp(min=LOWEST)
    return torch.log((logs - most).exp() @ matrix) + (most + shift)


def _close(alpha: Tensor, lengths: Tensor, trellis: Trellis) -> Tensor:
    """log Z (B) from the last α (B, L + 1, L)."""
    return (alpha + trellis.end).flatten(1).logsumexp(1).masked_fill(lengths == 0, 0.0)
