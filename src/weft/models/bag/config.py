"""The settings of a bag of n-grams, and those that suit some training data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator

from weft import limits
from weft.models.bag.ngrams import NgramKinds
from weft.models.fitting import GRADIENT_SETTINGS, FittedSettings
from weft.models.heads import DecisionSettings, SequenceInputs
from weft.settings import Count, Size

if TYPE_CHECKING:
    from weft.models.bag.model import Bag

WordNgrams = Annotated[int, Field(ge=1, le=limits.NGRAM)]
CharacterNgrams = Annotated[int, Field(ge=0, le=limits.NGRAM)]
Buckets = Annotated[int, Field(ge=1, le=limits.BUCKETS)]

SHORT_CHARACTERS: Final = 300
"""Mean length of texts up to which n-grams of characters are counted too: longer texts have enough words."""

NUMBER_RATE: Final = 0.3
"""The learning rate of a bag that predicts numbers: at 1 each update would fit its text exactly."""

MAX_DIRECT_LABELS: Final = 64
"""Labels up to which an n-gram has a weight for each; with more it has a vector of this size."""


class BagSettings(FittedSettings):
    """The n-grams of a bag and their weights."""

    has_export: ClassVar[bool] = False
    unused_train: ClassVar[tuple[str, ...]] = (*GRADIENT_SETTINGS, "batch_tokens")

    kind: Literal["bag"] = "bag"
    word_ngrams: WordNgrams = 2
    """Words of the longest n-gram of words."""
    char_ngrams: CharacterNgrams | list[CharacterNgrams] = 0
    """Characters of the shortest and the longest n-gram inside a word, such as [2, 5]; 0 for none."""
    buckets: Buckets = 1 << 22
    """Numbers that n-grams are hashed to; two n-grams with the same number count as one."""
    min_count: Count = 2
    """N-grams in fewer training texts have no weights."""
    max_ngrams: Count = 1_000_000
    """How many n-grams have weights at most: the most frequent."""
    width: Size | None = None
    """Size of the vector of an n-gram, for very many labels; by default an n-gram has a weight for each of up to 64."""

    @field_validator("char_ngrams")
    @classmethod
    def _is_a_range(cls, sizes: int | list[int]) -> int | list[int]:
        if isinstance(sizes, list) and (len(sizes) != 2 or not 1 <= sizes[0] <= sizes[1]):
            raise ValueError(f"{sizes} is not a range such as [2, 5], from the shortest to the longest")
        if isinstance(sizes, int) and sizes:
            raise ValueError(f"{sizes} is neither 0 nor a range such as [2, {max(2, sizes)}]")
        return sizes

    @property
    def kinds(self) -> NgramKinds:
        """The n-grams that are counted."""
        least, most = self.char_ngrams if isinstance(self.char_ngrams, list) else (0, 0)
        return NgramKinds(self.word_ngrams, least, most, self.buckets)

    def width_for(self, labels: int) -> int:
        """The size of an n-gram's vector; 0 where it has a weight for each label instead."""
        if self.width is not None:
            return self.width
        return 0 if labels <= MAX_DIRECT_LABELS else MAX_DIRECT_LABELS

    def build_classifier(self, inputs: SequenceInputs, labels: int) -> Bag:
        from weft.models.bag.model import Bag  # imports these settings

        return Bag(self, labels, inputs.tokenizer)


class BagConfig(DecisionSettings, BagSettings):
    """A bag of n-grams of words and characters, and a linear layer: fast, and hard to beat with few examples."""

    unused_train: ClassVar[tuple[str, ...]] = tuple(
        name for name in BagSettings.unused_train if name != "class_weights"
    )


class BagRegressorConfig(BagSettings):
    """A bag of n-grams of words and characters, from which a number is computed."""


def bag_defaults(examples: int, characters: int, *, rate: float = 1.0) -> dict[str, Any]:
    """The settings of `[model]` and `[train]` that suit so many examples and characters, with this learning rate.

    Short texts, such as names and phrases, have few words, and parts of words tell much about those that are new.
    """
    short = characters <= SHORT_CHARACTERS * examples
    return {
        "model": {"char_ngrams": [2, 5] if short else 0},
        "train": {"epochs": min(20, max(3, 100_000 // max(1, examples))), "rate": rate},
    }
