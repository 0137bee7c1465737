"""The probability of the tags of a batch, whatever model it comes from: each tag by itself, or whole sequences.

Every tagger returns such a distribution. Tags (B, T) that are `UNKNOWN_TAG` have no part in a likelihood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.nn import length_mask
from weft.nn.crf import UNKNOWN_TAG, Chain, log_likelihood, log_marginals, viterbi


class TagDistribution(ABC):
    """p(y_1 … y_T) for the rows of a batch: B rows, T words, L tags."""

    chained: bool
    """Whether it gives a probability to sequences, which may then have to keep rules, and not to single tags."""

    @abstractmethod
    def best(self) -> Tensor:
        """The predicted tags (B, T); anything past a row's end."""

    @abstractmethod
    def log_probabilities(self) -> Tensor:
        """log p(y_t = j) (B, T, L): the marginals, in float32."""

    @abstractmethod
    def log_likelihood(self, tags: Tensor, *, partial: bool = True) -> Tensor:
        """tags (B, T) -> log p of each row's known tags (B); without `partial` all are known, which is faster."""

    def loss(self, tags: Tensor, *, partial: bool = True, label_smoothing: float = 0.0) -> Tensor:
        """tags (B, T) -> -log p of all rows together."""
        assert label_smoothing == 0.0, "the configuration refuses to smooth the labels of sequences"
        return -self.log_likelihood(tags, partial=partial).sum()


class IndependentTags(TagDistribution):
    """p(y) = Π_t softmax(z_t)[y_t] with logits z (B, T, L): each tag depends on the words alone."""

    chained = False

    def __init__(self, logits: Tensor, lengths: Tensor) -> None:
        self.logits, self.lengths = logits, lengths

    def best(self) -> Tensor:
        return self.logits.argmax(-1)

    def log_probabilities(self) -> Tensor:
        return self.logits.float().log_softmax(-1)

    def log_likelihood(self, tags: Tensor, *, partial: bool = True) -> Tensor:
        known = length_mask(self.lengths, tags.size(1)) & (tags != UNKNOWN_TAG)
        logs = self.log_probabilities().gather(2, tags.clamp(min=0)[..., None]).squeeze(2)
        return torch.where(known, logs, 0.0).sum(1)

    def loss(self, tags: Tensor, *, partial: bool = True, label_smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(
            self.logits.flatten(0, 1).float(),
            tags.flatten(),
            ignore_index=UNKNOWN_TAG,
            reduction="sum",
            label_smoothing=label_smoothing,
        )


class ChainTags(TagDistribution):
    """p(y) of a linear chain over scores u (B, T, L) of single words (see weft.nn.crf)."""

    chained = True

    def __init__(self, u: Tensor, lengths: Tensor, chain: Chain) -> None:
        self.u, self.lengths, self.chain = u.float(), lengths, chain

    def best(self) -> Tensor:
        return viterbi(self.u, self.lengths, self.chain)

    def log_probabilities(self) -> Tensor:
        return log_marginals(self.u, self.lengths, self.chain)

    def log_likelihood(self, tags: Tensor, *, partial: bool = True) -> Tensor:
        return log_likelihood(self.u, tags, self.lengths, self.chain, partial=partial)
