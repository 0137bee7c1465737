"""Word vectors: skip-gram and CBOW with negative sampling (Mikolov et al., 2013), with character n-grams as an option.

v_w, u_w    the vector of word w as an input, and as an output; with n-grams v_w is the mean of v_w and theirs
skip-gram   maximise  log σ(v_w · u_c) + Σ_k log σ(-v_w · u_k)     for each word w and word c near it, k words of noise
CBOW        the same with the mean of the words near c in place of v_w

The words k are drawn once for all pairs of a window (Ji et al., 2016). V words, D vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator
from torch import Tensor, nn

from weft import limits
from weft.data import Examples
from weft.models.fitting import FitOptions, FittedModel, FittedSettings
from weft.models.vectors.fit import VectorFit
from weft.models.vectors.grams import ngram_buckets, word_parts
from weft.settings import Length, Size, Unread

MAX_NGRAM: Final = 32
"""Characters of the longest n-gram."""


class VectorSettings(FittedSettings):
    """The settings of word vectors, whatever the way they are learned."""

    embedding: Size = 100
    """Numbers of a vector."""
    window: Length = Field(5, le=limits.WINDOW)
    """The farthest word beside a word that is predicted with it; the reach is drawn from 1 to this for every word."""
    negatives: int = Field(5, ge=1, le=limits.NEGATIVES)
    """Words of noise drawn for every word."""
    subsample: float = Field(1e-3, ge=0.0, le=1.0)
    """The share of a text above which a word is frequent: many of its occurrences are left out; 0 keeps all."""
    ngrams: list[int] = Field(default_factory=list)
    """The shortest and the longest character n-grams, as in [3, 6], whose vectors belong to a word's; [] is none."""
    buckets: int = Field(200_000, ge=1, le=limits.BUCKETS)
    """Rows that all n-grams share, by a hash."""

    @field_validator("ngrams")
    @classmethod
    def _two_sizes(cls, ngrams: list[int]) -> list[int]:
        if ngrams and not (len(ngrams) == 2 and 1 <= ngrams[0] <= ngrams[1] <= MAX_NGRAM):
            raise ValueError(f"{ngrams} is not the shortest and the longest size, 1 to {MAX_NGRAM}, as in [3, 6]")
        return ngrams

    def unread(self) -> Any:
        if not self.ngrams:
            yield Unread("buckets", "holds nothing: there are no ngrams", "remove it, or set ngrams = [3, 6]")


class SkipGramSettings(VectorSettings):
    """Each word predicts the words near it."""

    kind: Literal["skipgram"] = "skipgram"
    cbow: ClassVar[bool] = False


class CbowSettings(VectorSettings):
    """The mean of the words near a word predicts it: several times as fast, for large texts."""

    kind: Literal["cbow"] = "cbow"
    cbow: ClassVar[bool] = True


VECTORS: Final[dict[str, type[VectorSettings]]] = {"skipgram": SkipGramSettings, "cbow": CbowSettings}
"""The settings of `[model]` for word vectors, by their `kind`."""


class WordVectors(FittedModel):
    """inputs (V + buckets, D), outputs (V, D), and the number of occurrences of each word in the training text (V)."""

    def __init__(self, config: VectorSettings, words: Sequence[str]) -> None:
        super().__init__()
        self.config, self.words = config, words
        rows = len(words) + (config.buckets if config.ngrams else 0)
        self.inputs = nn.Parameter(torch.empty(rows, config.embedding), requires_grad=False)
        self.inputs.uniform_(-0.5 / config.embedding, 0.5 / config.embedding)
        self.outputs = nn.Parameter(torch.zeros(len(words), config.embedding), requires_grad=False)
        self.counts: Tensor
        self.register_buffer("counts", torch.zeros(len(words), dtype=torch.long))

    @property
    def cbow(self) -> bool:
        """Whether a word is predicted from the mean of its neighbours."""
        return self.config.cbow  # type: ignore[attr-defined, no-any-return]

    def fit(self, examples: Examples, options: FitOptions) -> VectorFit:
        """Start to train on the column "tokens" of the examples."""
        return VectorFit(self, examples, options)

    def check(self) -> None:
        if bool((self.counts < 0).any()):
            raise ValueError("a word occurs less than 0 times")
        if not bool((self.counts > 0).any()):
            raise ValueError("no word has been counted")

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The rows of `inputs` that each word is the mean of, as `word_parts` lays them out; None without n-grams."""
        config = self.config
        return word_parts(self.words, sizes=config.ngrams, buckets=config.buckets) if config.ngrams else None

    def table(self) -> Tensor:
        """The vector of every word (V, D)."""
        parts = self.parts()
        if parts is None:
            return self.inputs.detach()
        starts, rows = map(torch.from_numpy, parts)
        return nn.functional.embedding_bag(rows.long(), self.inputs.detach(), starts[:-1], mode="mean")

    def vector(self, word: str) -> Tensor | None:
        """The vector (D,) of a word that is not in the vocabulary: the mean of its n-grams; None if it has none."""
        config = self.config
        found = ngram_buckets(word, sizes=config.ngrams, buckets=config.buckets) if config.ngrams else []
        return self.inputs[[len(self.words) + bucket for bucket in found]].mean(0) if found else None
