"""The settings of an n-gram language model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from weft import limits
from weft.models.fitting import GRADIENT_SETTINGS, UPDATE_SETTINGS, FittedSettings
from weft.models.ngram.smoothing import AddK, FromFile, KneserNey, NoSmoothing, Smoothing
from weft.settings import OneOf, Settings, TableError

SMOOTHINGS: Final[dict[str, type[Settings]]] = {
    "kneser_ney": KneserNey,
    "add_k": AddK,
    "none": NoSmoothing,
    "arpa": FromFile,
}
"""The settings of `smoothing`, by their `kind`."""


class NgramConfig(FittedSettings):
    """A model of counts: the next token from those before it, as often as it followed them in the training text."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(5, ge=1, le=limits.NGRAM_ORDER)
    """Tokens of the longest n-grams: the next token depends on the order - 1 before it."""
    smoothing: Annotated[Smoothing, OneOf(SMOOTHINGS)] = KneserNey()
    """How n-grams that were never seen get a probability: kneser_ney, add_k or none, as a table or by name."""

    @field_validator("smoothing", mode="before")
    @classmethod
    def _name_is_enough(cls, smoothing: object) -> object:
        return {"kind": smoothing} if isinstance(smoothing, str) else smoothing

    @model_validator(mode="after")
    def _has_counts(self, info: ValidationInfo) -> Self:
        if isinstance(self.smoothing, FromFile) and not (info.context or {}).get("keep_unread"):
            what = "is for models that are read from a file, and not trained"
            cure = "make a run of the file with: weft import FILE --out RUN"
            raise TableError(what, where='smoothing.kind = "arpa"', cure=cure)
        return self

    unused_train: ClassVar[tuple[str, ...]] = (*GRADIENT_SETTINGS, *UPDATE_SETTINGS)
