"""A bag of n-grams: a linear classifier or regressor of the n-grams of a text, the baseline that a network has to beat.

    x = tf-idf of the n-grams of a text, |x| = 1        p = softmax(b + x W)        b = ln of the share of each label

tf = 1 + ln count, idf = 1 + ln (1 + N) / (1 + texts with the n-gram), of N training texts. With a width K each n-gram
has a vector instead of a weight for each label, W = E U (fastText, Joulin et al., 2017). A text without any n-gram of
the training data has the probabilities b. A number is b + x W itself, with b the mean of the training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import Examples
from weft.models.bag.characters import Alphabet, Characters
from weft.models.bag.config import BagSettings
from weft.models.bag.fit import BagFit, TokenTexts
from weft.models.bag.ngrams import NgramVocabulary, find_ngrams
from weft.models.fitting import FitOptions, FittedModel
from weft.models.heads import EVEN
from weft.text import Tokenizer


class Bag(FittedModel):
    """n-grams of a text -> a logit for each label, or one number.

    `buckets` (F) are those of the n-grams that have weights, in ascending order; their number depends on the data.
    """

    thresholds: Tensor | None
    """The decision threshold of each label (C); None where the likeliest label is the answer."""

    packs = False
    evaluation_tokens = 1 << 20
    """Tokens of a batch where nothing is learned: they are characters here, and take little memory."""

    def __init__(self, config: BagSettings, labels: int, tokenizer: Tokenizer | None = None) -> None:
        super().__init__()
        self.config, self.labels, self.tokenizer = config, labels, tokenizer
        self.width = config.width_for(labels)
        self.bias = nn.Parameter(torch.zeros(labels), requires_grad=False)
        self.output = nn.Parameter(torch.zeros(labels, self.width), requires_grad=False) if self.width else None
        chosen = getattr(config, "thresholds", "none") != "none"
        self.register_buffer("prior", torch.zeros(labels))
        self.register_buffer("thresholds", torch.full((labels,), EVEN) if chosen else None)
        self.prior: Tensor
        self.buckets: Tensor
        self.idf: Tensor
        self.weights: nn.Parameter
        self.grow(0)

    def grow(self, ngrams: int) -> None:
        """Allocate the tensors for so many n-grams."""
        self.register_buffer("buckets", torch.zeros(ngrams, dtype=torch.int32, device=self.bias.device))
        self.register_buffer("idf", torch.zeros(ngrams, device=self.bias.device))
        weights = torch.zeros(ngrams, self.width or self.labels, device=self.bias.device)
        self.weights = nn.Parameter(weights, requires_grad=False)
        self.__dict__.pop("vocabulary", None)

    @cached_property
    def alphabet(self) -> Alphabet:
        """The characters that tokens stand for."""
        assert self.tokenizer is not None
        return Alphabet(self.tokenizer)

    @cached_property
    def vocabulary(self) -> NgramVocabulary:
        """The n-grams that have weights."""
        rows = np.full(self.config.buckets, -1, dtype=np.int32)
        rows[self.buckets.numpy()] = np.arange(len(self.buckets), dtype=np.int32)
        return NgramVocabulary(rows, self.idf.numpy())

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, T), lengths (B) -> logits (B, labels)."""
        real = torch.arange(tokens.size(1)) < lengths[:, None]
        return self.logits(self.alphabet.read(tokens[real].numpy(), lengths.numpy()))

    def logits(self, texts: Characters) -> Tensor:
        """Texts -> logits (N, labels)."""
        rows = find_ngrams(texts, self.config.kinds, self.vocabulary)
        scores = rows.times(self.weights)
        scores = self.bias + (scores if self.output is None else scores @ self.output.T)
        empty = torch.from_numpy(np.diff(rows.starts) == 0)
        return torch.where(empty[:, None], self.prior, scores)

    @torch.no_grad()
    def divide_logits(self, temperature: float) -> None:
        """Divide all logits by a temperature from now on; a text without known n-grams keeps its probabilities."""
        (self.weights if self.output is None else self.output).div_(temperature)
        self.bias.div_(temperature)

    def fit(self, examples: Examples, options: FitOptions) -> BagFit:
        return BagFit(self, TokenTexts(examples, self.alphabet), options)

    def allocate(self, shapes: Mapping[str, torch.Size]) -> None:
        size = shapes.get("buckets", torch.Size())
        if len(size) != 1 or size[0] > self.config.buckets:
            raise ValueError(f"it has not up to {self.config.buckets:,} n-grams")
        if shapes.get("weights") != (size[0], self.width or self.labels) or shapes.get("idf") != (size[0],):
            raise ValueError("its n-grams, their idf and their weights are not equally many")
        self.grow(size[0])

    def check(self) -> None:
        buckets = self.buckets.numpy()
        if len(buckets) and (
            buckets[0] < 0 or buckets[-1] >= self.config.buckets or bool((np.diff(buckets) < 1).any())
        ):
            raise ValueError(f"the buckets of its n-grams are not ascending numbers below {self.config.buckets:,}")
