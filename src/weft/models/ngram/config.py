"""The settings of an n-gram language model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from weft import limits
from weft.models.fitting import GRADIENT_SETTINGS, UPDATE_SETTINGS, FittedSettings
from weft.models.ngram.smoothing import AddK, KneserNey, NoSmoothing, Smoothing
from weft.settings import OneOf, Settings

SMOOTHINGS: Final[dict[str, type[Settings]]] = {"kneser_ney": KneserNey, "add_k": AddK, "none": NoSmoothing}
"""The settings of `smoothing`, by their `kind`."""


class NgramConfig(FittedSettings):
    """A model of counts: the next token from those before it, as often as it followed them in the training text."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(5, ge=1, le=limits.NGRAM_ORDER)
    """Tokens of the longest n-grams: the next token depends on the order - 1 before it."""
    smoothing: Annotated[Smoothing, OneOf(SMOOTHINGS)] = KneserNey()
    """The probability of what was never seen: { kind = "kneser_ney" }, { kind = "add_k", k = … } or { kind = "none" }."""

    unused_train: ClassVar[tuple[str, ...]] = (*GRADIENT_SETTINGS, *UPDATE_SETTINGS)
