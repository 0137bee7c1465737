"""The settings of word vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from weft import limits
from weft.models.fitting import FittedSettings
from weft.settings import Size, Unread


class VectorSettings(FittedSettings):
    """The settings of word vectors, whatever the way they are learned."""

    cbow: ClassVar[bool]
    """Whether a word is predicted from the mean of the words near it."""

    embedding: Size = 100
    """Numbers of a vector."""
    window: int = Field(5, ge=1, le=limits.WINDOW)
    """Words on each side that a word is learned with; for each occurrence their number is drawn from 1 to this."""
    negatives: int = Field(5, ge=1, le=limits.NEGATIVES)
    """Words of noise drawn for every word."""
    subsample: float = Field(1e-3, ge=0.0, le=1.0)
    """The share of the text from which on a word is frequent, and many of its occurrences are left out; 0 keeps all."""
    ngrams: list[Annotated[int, Field(ge=1, le=limits.NGRAM)]] = Field(default_factory=list)
    """The shortest and the longest character n-grams that a word's vector is made of, as in [3, 6]; [] is none."""
    buckets: int = Field(200_000, ge=1, le=limits.BUCKETS)
    """Rows that all n-grams share, by a hash."""

    @field_validator("ngrams")
    @classmethod
    def _two_sizes(cls, ngrams: list[int]) -> list[int]:
        if ngrams and not (len(ngrams) == 2 and ngrams[0] <= ngrams[1]):
            raise ValueError(f"{ngrams} is not the shortest and the longest size, as in [3, 6]")
        return ngrams

    def unread(self) -> Iterator[Unread]:
        if not self.ngrams:
            yield Unread("buckets", "holds nothing: there are no ngrams", "remove it, or set ngrams = [3, 6]")


class SkipGramSettings(VectorSettings):
    """Each word predicts the words near it."""

    cbow: ClassVar[bool] = False
    kind: Literal["skipgram"] = "skipgram"


class CbowSettings(VectorSettings):
    """The mean of the words near a word predicts it: faster, for large texts."""

    cbow: ClassVar[bool] = True
    kind: Literal["cbow"] = "cbow"


VECTORS: Final[dict[str, type[VectorSettings]]] = {"skipgram": SkipGramSettings, "cbow": CbowSettings}
"""The settings of `[model]` for word vectors, by their `kind`."""
