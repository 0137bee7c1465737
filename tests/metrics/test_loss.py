"""Loss and perplexity, by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.metrics import LossTally, describe_vocabulary


def tally(*parts: tuple[float, int]) -> LossTally:
    loss = LossTally()
    for total, count in parts:
        loss.add(total, count)
    return loss


@pytest.mark.covers("E1")
def test_loss_is_the_mean_over_tokens_and_not_over_batches() -> None:
    # Tokens with probabilities 1/2, 1/2 in one batch and 1/8 in another: (1 + 1 + 3) ln 2 / 3.
    loss = tally((2 * math.log(2), 2), (math.log(8), 1))
    assert loss.loss == pytest.approx(5 / 3 * math.log(2))
    assert loss.perplexity == pytest.approx(2 ** (5 / 3))
    assert loss.count == 3


@pytest.mark.covers("E1")
@given(vocabulary=st.integers(1, 100_000), tokens=st.integers(1, 1000))
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(vocabulary: int, tokens: int) -> None:
    assert tally((tokens * math.log(vocabulary), tokens)).perplexity == pytest.approx(vocabulary)


@given(
    nats=st.lists(st.floats(0, 50), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5).map(sorted),
)
def test_batches_do_not_matter(nats: list[float], cuts: list[int]) -> None:
    bounds = [0, *(min(cut, len(nats)) for cut in cuts), len(nats)]
    batches = [nats[start:end] for start, end in pairwise(bounds)]
    batched = tally(*((sum(batch), len(batch)) for batch in batches))
    alone = tally(*((value, 1) for value in nats))
    assert batched.loss == pytest.approx(alone.loss)
    assert batched.count == alone.count == len(nats)


def test_a_perplexity_too_large_to_hold_is_infinite() -> None:
    assert tally((1e6, 1)).perplexity == math.inf
    assert tally((math.inf, 1)).perplexity == math.inf


def test_nothing_counted_is_an_error() -> None:
    loss = LossTally()
    assert loss.count == 0
    with pytest.raises(DataError, match="no token was predicted"):
        _ = loss.loss
    with pytest.raises(DataError, match="no token was predicted"):
        _ = loss.perplexity


@pytest.mark.covers("E5")
def test_the_share_of_unknown_tokens_counts_before_it_divides() -> None:
    loss = LossTally()
    loss.add(3.0, 3, 1)
    loss.add(5.0, 5)
    details = loss.details(unit="word", vocabulary=33_278)
    assert details == {"perplexity_unit": "word", "vocabulary": 33_278, "tokens": 8, "unknown_share": 1 / 8}
    many, few = (describe_vocabulary(details | {"unknown_share": share}) for share in (1 / 8, 0.02))
    qualified = "they count as one easy word, so do not compare with a model that spells them out"
    assert many == f"vocabulary 33,278 words, 12.50% of tokens unknown: {qualified}"
    assert few == "vocabulary 33,278 words, 2.00% of tokens unknown"
    assert describe_vocabulary({"accuracy": 1.0}) is None
