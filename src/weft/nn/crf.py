"""Linear-chain conditional random field (Lafferty et al., 2001): the probability of a whole sequence of tags.

    s(y) = a[y_1] + Σ_t u_t[y_t] + Σ_{t>1} A[y_{t-1}, y_t] + e[y_T]            p(y) = exp(s(y) - log Z)

    α_1[j] = a[j] + u_1[j]         α_t[j] = u_t[j] + log Σ_i exp(α_{t-1}[i] + A[i, j])
    β_T[i] = e[i]                  β_t[i] = log Σ_j exp(A[i, j] + u_{t+1}[j] + β_{t+1}[j])
    log Z  = log Σ_j exp(α_T[j] + e[j])          log p(y_t = j) = α_t[j] + β_t[j] - log Z

u (B, T, L) are the scores that a network gives to each tag of each word; a (L), A (L, L) and e (L) are learned. An
illegal transition has the score -inf, so no sequence that has probability contains it. All results are float32 at
least, also where the network computes in bfloat16.                                    B batch, T time, L tags

A step of α or β is a product of matrices, exp(α_{t-1} - max) exp(A), in float64: no exponent of (B, L, L) numbers is
taken. A tag whose α is smaller than the largest of its word by more than 700 then has no part in the next step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.nn.attention.masks import length_mask

UNKNOWN_TAG = -1
"""The number of a tag that is not known: the probability is then that of the other tags, summed over this one."""

LOWEST, HIGHEST = -1e30, 700.0
"""A maximum of scores that are all -inf, so that no infinities are subtracted; the largest exponent of a float64."""


class Legal(NamedTuple):
    """The tags that may begin a sequence (L), follow each other (L, L) and end it (L), as booleans."""

    start: Tensor
    transitions: Tensor
    end: Tensor


class Chain(NamedTuple):
    """The scores of a first tag a (L), of a tag after another A (L, L), and of a last tag e (L)."""

    start: Tensor
    transitions: Tensor
    end: Tensor

    def where(self, legal: Legal | None) -> Chain:
        """The scores, with -inf for all that is not legal."""
        if legal is None:
            return self
        return Chain(*(part.masked_fill(~may, -torch.inf) for part, may in zip(self, legal, strict=True)))


def log_partition(u: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """u (B, T, L), lengths (B) -> log Z (B); that of a row without words is 0."""
    return _LogPartition.apply(u, lengths, *chain)  # type: ignore[no-any-return, no-untyped-call]


def path_score(u: Tensor, tags: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """u (B, T, L), tags (B, T) that are all known, lengths (B) -> s(y) (B)."""
    if u.size(1) == 0:
        return u.sum((1, 2))
    real = length_mask(lengths, u.size(1))
    tags = tags.masked_fill(~real, 0)
    words = u.gather(2, tags[..., None]).squeeze(2).masked_fill(~real, 0.0).sum(1)
    steps = chain.transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~real[:, 1:], 0.0).sum(1)
    last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None]).squeeze(1)
    ends = chain.start[tags[:, 0]] + chain.end[last]
    return words + steps + ends.masked_fill(lengths == 0, 0.0)


def log_likelihood(u: Tensor, tags: Tensor, lengths: Tensor, chain: Chain, *, partial: bool = True) -> Tensor:
    """u (B, T, L), tags (B, T), lengths (B) -> log p(y) (B).

    With `partial` some tags may be `UNKNOWN_TAG`: then it is the probability of the known ones.
    """
    score = log_partition(pin(u, tags), lengths, chain) if partial else path_score(u, tags, lengths, chain)
    return score - log_partition(u, lengths, chain)


def pin(u: Tensor, tags: Tensor) -> Tensor:
    """u (B, T, L) with -inf for each tag that contradicts a known one of tags (B, T)."""
    others = torch.arange(u.size(2), device=u.device) != tags[..., None]
    return u.masked_fill(others & (tags != UNKNOWN_TAG)[..., None], -torch.inf)


def log_marginals(u: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """u (B, T, L), lengths (B) -> log p(y_t = j) (B, T, L); zeros past a row's end."""
    alpha = _forward(u, lengths, chain)
    beta = _backward(u, lengths, chain)
    log_z = _close(alpha, lengths, chain.end)[:, None, None]
    return (alpha + beta - log_z).masked_fill(~length_mask(lengths, u.size(1))[..., None], 0.0).to(u.dtype)


def viterbi(u: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """u (B, T, L), lengths (B) -> the likeliest tags (B, T); 0 past a row's end."""
    batch, time, _ = u.shape
    if time == 0:
        return torch.zeros(batch, 0, dtype=torch.long, device=u.device)
    real = length_mask(lengths, time)
    best, back = chain.start + u[:, 0], []
    for t in range(1, time):
        reached, source = (best[:, :, None] + chain.transitions).max(1)
        best = torch.where(real[:, t, None], reached + u[:, t], best)
        back.append(source)
    tag = (best + chain.end).argmax(1)
    tags = [tag]
    for t in range(time - 1, 0, -1):
        tag = torch.where(real[:, t], back[t - 1].gather(1, tag[:, None]).squeeze(1), tag)
        tags.append(tag)
    return torch.stack(tags[::-1], dim=1).masked_fill(~real, 0)


class CRF(nn.Module):
    """The learned scores a, A and e over given scores of single words; `legal` says which transitions there may be."""

    def __init__(self, labels: int, *, legal: Legal | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.transitions = nn.Parameter(torch.zeros(labels, labels))
        self.end = nn.Parameter(torch.zeros(labels))
        for name, mask in (legal._asdict() if legal else {}).items():
            self.register_buffer(f"legal_{name}", mask, persistent=False)  # it follows from the labels
        self.bounded = legal is not None

    @property
    def chain(self) -> Chain:
        """The scores in float32, -inf for all that is illegal."""
        legal = Legal(*(getattr(self, f"legal_{name}") for name in Legal._fields)) if self.bounded else None
        return Chain(self.start.float(), self.transitions.float(), self.end.float()).where(legal)

    def log_likelihood(self, u: Tensor, tags: Tensor, lengths: Tensor, *, partial: bool = True) -> Tensor:
        """u (B, T, L), tags (B, T), lengths (B) -> log p(y) (B); see the function of this name."""
        return log_likelihood(u.float(), tags, lengths, self.chain, partial=partial)

    def log_marginals(self, u: Tensor, lengths: Tensor) -> Tensor:
        """u (B, T, L), lengths (B) -> log p(y_t = j) (B, T, L)."""
        return log_marginals(u.float(), lengths, self.chain)

    def decode(self, u: Tensor, lengths: Tensor) -> Tensor:
        """u (B, T, L), lengths (B) -> the likeliest tags (B, T)."""
        return viterbi(u.float(), lengths, self.chain)


class _LogPartition(torch.autograd.Function):
    """log Z with its gradients from one backward recursion; all -inf in the scores are allowed.

    ∂ log Z / ∂ u_t[j] = p(y_t = j)          ∂ log Z / ∂ A[i, j] = Σ_t p(y_{t-1} = i, y_t = j)
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, lengths: Tensor, *parts: Tensor) -> Tensor:
        chain = Chain(*parts)
        alpha = _forward(u, lengths, chain)
        log_z = _close(alpha, lengths, chain.end)
        ctx.save_for_backward(u, lengths, alpha, log_z, *chain)
        return log_z.to(u.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, lengths, alpha, log_z, *parts = ctx.saved_tensors
        chain = Chain(*parts)
        time, labels = u.shape[1:]
        if time == 0:
            return None, None, None, None, None
        beta = _backward(u, lengths, chain)
        inner = length_mask(lengths, time)[..., None]
        shares = torch.where(inner, (alpha + beta - log_z[:, None, None]).exp(), 0.0) * grad[:, None, None]
        last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, labels)
        pairs = _pairs(u, alpha, beta, chain, log_z, torch.where(inner[:, 1:], grad[:, None, None], 0.0))
        found = shares, shares[:, 0].sum(0), pairs, shares.gather(1, last).sum((0, 1))
        words, first, steps, final = (part.to(u.dtype) for part in found)
        return words, None, first, steps, final


class ShiftedTransitions(NamedTuple):
    """exp(A - shift) (L, L) in float64, and the shift."""

    matrix: Tensor
    shift: Tensor

    @classmethod
    def of(cls, transitions: Tensor) -> ShiftedTransitions:
        wide = _wide(transitions)
        shift = wide.max().clamp(min=LOWEST)
        return cls((wide - shift).exp(), shift)

    def __call__(self, logs: Tensor, matrix: Tensor) -> Tensor:
        """log Σ_i exp(logs[i] + A[i, j]) for logs (B, L) and the matrix or its transpose -> (B, L)."""
        most = logs.amax(1, keepdim=True).clamp(min=LOWEST)
        return torch.log((logs - most).exp() @ matrix) + (most + self.shift)


def _wide(part: Tensor) -> Tensor:
    return part if part.device.type == "mps" else part.double()  # which has no float64


def _pairs(u: Tensor, alpha: Tensor, beta: Tensor, chain: Chain, log_z: Tensor, weights: Tensor) -> Tensor:
    """Σ_t p(y_{t-1} = i, y_t = j) (L, L), weighted by (B, T - 1, 1), in one product over all rows and steps."""
    steps = ShiftedTransitions.of(chain.transitions)
    before, after = alpha[:, :-1], u[:, 1:] + beta[:, 1:]
    most = before.amax(2, keepdim=True).clamp(min=LOWEST)
    left = (before - most).exp()
    right = (after + most + (steps.shift - log_z[:, None, None])).clamp(max=HIGHEST).exp() * weights
    return steps.matrix * (left.flatten(0, 1).T @ right.flatten(0, 1))


def _forward(u: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """α (B, T, L) in float64; past a row's end that of its last word."""
    if u.size(1) == 0:
        return _wide(u)
    real, steps = length_mask(lengths, u.size(1))[..., None], ShiftedTransitions.of(chain.transitions)
    u = _wide(u)
    alpha = chain.start + u[:, 0]
    alphas = [alpha]
    for t in range(1, u.size(1)):
        alpha = torch.where(real[:, t], steps(alpha, steps.matrix) + u[:, t], alpha)
        alphas.append(alpha)
    return torch.stack(alphas, dim=1)


def _backward(u: Tensor, lengths: Tensor, chain: Chain) -> Tensor:
    """β (B, T, L) in float64; e past a row's last word."""
    if u.size(1) == 0:
        return _wide(u)
    real, steps = length_mask(lengths, u.size(1))[..., None], ShiftedTransitions.of(chain.transitions)
    u, transposed = _wide(u), steps.matrix.T.contiguous()
    beta = _wide(chain.end).expand(u.size(0), -1)
    betas = [beta]
    for t in range(u.size(1) - 1, 0, -1):
        beta = torch.where(real[:, t], steps(u[:, t] + beta, transposed), beta)
        betas.append(beta)
    return torch.stack(betas[::-1], dim=1)


def _close(alpha: Tensor, lengths: Tensor, end: Tensor) -> Tensor:
    """log Z (B) from α (B, T, L)."""
    if alpha.size(1) == 0:
        return alpha.sum((1, 2))
    return (alpha[:, -1] + end).logsumexp(1).masked_fill(lengths == 0, 0.0)
