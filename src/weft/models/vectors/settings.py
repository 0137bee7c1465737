"""The settings of word vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from weft import limits
from weft.models.fitting import FittedSettings
from weft.settings import Size, Unread

NgramSize = Annotated[int, Field(ge=0, le=limits.NGRAM)]


class VectorSettings(FittedSettings):
    """The settings of word vectors, whatever the way they are learned."""

    cbow: ClassVar[bool]
    """Whether a word is predicted from the mean of the words near it."""

    embedding: Size = 100
    """Numbers of a vector."""
    window: int = Field(5, ge=1, le=limits.WINDOW_WORDS)
    """Words on each side that a word is learned with; for each occurrence their number is drawn from 1 to this."""
    negatives: int = Field(5, ge=1, le=limits.NEGATIVE_WORDS)
    """Words of noise drawn for every word."""
    subsample: float = Field(1e-3, ge=0.0, le=1.0)
    """The share of the text from which on a word is frequent, and many of its occurrences are left out; 0 keeps all."""
    char_ngrams: NgramSize | list[NgramSize] = 0
    """Characters of the shortest and the longest n-gram that a word's vector is made of, such as [3, 6]; 0 for none."""
    buckets: int = Field(200_000, ge=1, le=limits.BUCKETS)
    """Rows that all n-grams share, by a hash."""

    @field_validator("char_ngrams")
    @classmethod
    def _is_a_range(cls, sizes: int | list[int]) -> int | list[int]:
        if isinstance(sizes, list) and (len(sizes) != 2 or not 1 <= sizes[0] <= sizes[1]):
            raise ValueError(f"{sizes} is not a range such as [3, 6], from the shortest to the longest")
        if isinstance(sizes, int) and sizes:
            raise ValueError(f"{sizes} is neither 0 nor a range such as [3, {max(3, sizes)}]")
        return sizes

    @property
    def ngrams(self) -> list[int]:
        """The sizes of the shortest and the longest n-gram; empty where there are none."""
        return self.char_ngrams if isinstance(self.char_ngrams, list) else []

    def unread(self) -> Iterator[Unread]:
        if not self.ngrams:
            yield Unread("buckets", "holds nothing: there are no char_ngrams", "remove it, or set char_ngrams = [3, 6]")


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
