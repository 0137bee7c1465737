"""Loss and perplexity per token.

loss = Σ -ln p(token) / number of tokens          perplexity = exp(loss)
"""

from __future__ import annotations

import math

from weft.errors import DataError


class LossTally:
    """Sums negative log-likelihoods (in nats) and counts the tokens they belong to.

    Nothing counted is an error, not 0: that would read as a perfect model.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def add(self, total: float, count: int) -> None:
        """Add the summed negative log-likelihood of `count` predicted tokens."""
        self.total += total
        self.count += count

    @property
    def loss(self) -> float:
        """Mean negative log-likelihood of a token."""
        if not self.count:
            raise DataError("no token was predicted, so there is no loss", cure="check that the data set is not empty")
        return self.total / self.count

    @property
    def perplexity(self) -> float:
        """exp(loss): a uniform model over V tokens has V; infinite where the number is too large to hold."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf
