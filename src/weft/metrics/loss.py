"""Loss and perplexity per token.

loss = Σ -ln p(token) / number of tokens          perplexity = exp(loss)

Both depend on what a token is. The fewer words a vocabulary has, the more of a text is the one unknown token, which is
easy to predict: the size of the vocabulary and the share of unknown tokens belong beside every perplexity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError

MAX_COMPARABLE_SHARE: Final = 0.02
"""The share of unknown tokens above which figures are said to be too low to compare."""

TOO_LOW: Final = "they count as one easy word, so do not compare with a model that spells them out"


class LossTally:
    """Sums negative log-likelihoods (in nats) and counts the tokens they belong to.

    Nothing counted is an error, not 0: that would read as a perfect model.
    """

    def __init__(self, total: float = 0.0, count: int = 0, unknown: int = 0) -> None:
        self.total, self.count, self.unknown = total, count, unknown

    @classmethod
    def of(cls, sums: Sequence[float] | NDArray[np.float64]) -> LossTally:
        """A tally with these sums: the total and the count."""
        total, count = sums
        return cls(float(total), int(count))

    def sums(self) -> tuple[float, int]:
        """The total and the count, which loss and perplexity follow from."""
        return self.total, self.count

    def add(self, total: float, count: int, unknown: int = 0) -> None:
        """Add the summed negative log-likelihood of `count` predicted tokens, `unknown` of them the unknown token."""
        self.total += total
        self.count += count
        self.unknown += unknown

    def merge(self, other: LossTally) -> None:
        """Add everything that another tally has counted."""
        self.add(other.total, other.count, other.unknown)

    def details(self, *, unit: str, vocabulary: int) -> dict[str, Any]:
        """The facts behind the perplexity: the unit of a token, the size of the vocabulary, the number of tokens and
        the share of unknown ones."""
        numbers = {"vocabulary": vocabulary, "tokens": self.count, "unknown_share": self.unknown_share}
        return {"perplexity_unit": unit, **numbers}

    @property
    def unknown_share(self) -> float:
        """The share of tokens that are the unknown one."""
        return self.unknown / self.count if self.count else 0.0

    @property
    def loss(self) -> float:
        """Mean negative log-likelihood of a token."""
        if not self.count:
            cure = "give more text, with words that the training text has"
            raise DataError("no token was predicted, so there is no loss", cure=cure)
        return self.total / self.count

    @property
    def perplexity(self) -> float:
        """exp(loss): a uniform model over V tokens has V; infinite where the number is too large to hold."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf


def describe_vocabulary(details: Mapping[str, Any]) -> str | None:
    """`LossTally.details` in a few words, such as "vocabulary 33,278 words, 2.51% of tokens unknown"; None without."""
    if "vocabulary" not in details or "perplexity" not in details.get("shown", ("perplexity",)):
        return None
    size, unit, share = details["vocabulary"], details["perplexity_unit"], details["unknown_share"]
    found = f"vocabulary {size:,} {unit}s, {100 * share:.2f}% of tokens unknown"
    return f"{found}: {TOO_LOW}" if share > MAX_COMPARABLE_SHARE else found
