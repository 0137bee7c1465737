"""Penalties for repeated tokens: their formulas by hand, and a search that maximises the penalised log-probability."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from weft.decoding import DecodeConfig, search, search_exhaustive
from weft.decoding.penalties import WrittenTokens, penalise
from weft.text import EOS, MASK, PAD, SOS, UNK

AGAIN = settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEVER = (PAD, SOS, MASK, UNK)


@pytest.mark.covers("D7")
def test_repetition_is_that_of_hugging_face() -> None:
    """RepetitionPenaltyLogitsProcessor: tokens of prompt and text, positive ones divided, negative ones multiplied."""
    torch.manual_seed(0)
    scores, ids = torch.randn(3, 9), torch.tensor([[1, 4, 4], [2, 0, 8], [5, 5, 5]])
    own = scores.gather(1, ids)
    expected = scores.scatter(1, ids, torch.where(own < 0, own * 1.7, own / 1.7))
    written, read = torch.zeros(3, 9, dtype=torch.int32), torch.zeros(3, 9, dtype=torch.bool)
    read.scatter_(1, ids[:, :1], value=True)
    written.scatter_add_(1, ids[:, 1:], torch.ones(3, 2, dtype=torch.int32))
    assert_close(penalise(scores, written, read, DecodeConfig(repetition_penalty=1.7)), expected)


@pytest.mark.covers("D7")
def test_frequency_and_presence_are_subtracted() -> None:
    """z - 0.5 · count - 0.25 · [count > 0]; the prompt does not count."""
    written, read = torch.tensor([[0, 1, 3]]), torch.tensor([[True, False, False]])
    found = penalise(torch.ones(1, 3), written, read, DecodeConfig(frequency_penalty=0.5, presence_penalty=0.25))
    assert_close(found, torch.tensor([[1.0, 1 - 0.5 - 0.25, 1 - 1.5 - 0.25]]))


def test_counts_follow_the_hypotheses() -> None:
    """Two slots of two places: counts move with the places that are extended, and a new sentence starts at zero."""
    counts, config = WrittenTokens(2, 2), DecodeConfig(frequency_penalty=1.0)
    logits, free = torch.zeros(4, 6), torch.tensor([False, False])
    assert not counts.penalise(logits, config).any()
    counts.move(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0, 0], [0, 1]]), free)
    counts.move(torch.tensor([[1, 1], [3, 5]]), torch.tensor([[1, 0], [0, 0]]), torch.tensor([False, True]))
    found = -counts.penalise(logits, config)
    assert found.tolist() == [[0, 1, 1, 0, 0, 0], [0, 2, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0]]
    counts.keep(torch.tensor([1]))
    counts.admit(torch.tensor([0]), [(2,)])
    found = counts.penalise(torch.ones(2, 6), DecodeConfig(repetition_penalty=2.0))
    assert found.tolist() == [[1, 1, 0.5, 1, 1, 1]] * 2


@pytest.mark.covers("D7")
@given(seed=st.integers(0, 10_000), n_best=st.integers(1, 6), data=st.data())
@AGAIN
def test_a_beam_that_keeps_everything_is_exhaustive(
    random_model: Any, seed: int, n_best: int, data: st.DataObject
) -> None:
    model = random_model(seed=seed, sentences=2)
    penalties = st.sampled_from([-0.7, 0.0, 1.5])
    config = DecodeConfig(
        beam=121,
        n_best=n_best,
        max_length=4,
        repetition_penalty=data.draw(st.sampled_from([0.7, 1.0, 2.0])),
        frequency_penalty=data.draw(penalties),
        presence_penalty=data.draw(penalties),
    )
    prefixes = data.draw(st.lists(st.lists(st.integers(5, 7), max_size=2), min_size=2, max_size=2))
    asked: dict[str, Any] = {"prefixes": prefixes, "forbid": NEVER}
    found = search(model, model.memory, 2, config, **asked)
    expected = search_exhaustive(model, model.memory, 2, config, **asked)
    plain = search_exhaustive(model, model.memory, 2, DecodeConfig(n_best=121, beam=121, max_length=4), **asked)
    for ours, oracle, texts in zip(found, expected, plain, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in oracle]
        assert [one.rank for one in ours] == pytest.approx([one.rank for one in oracle])
        scores = {(one.tokens, one.finished): one.score for one in texts}
        assert [one.score for one in ours] == pytest.approx([scores[one.tokens, one.finished] for one in ours]), (
            "scores are those of the model"
        )


@pytest.mark.parametrize("config", [{"beam": 1}, {"sample": True}], ids=str)
def test_presence_ends_repetition(table_model: Any, config: dict[str, Any]) -> None:
    """A model that says one word for ever says it once, and then each of the others once."""
    words = {5: 0.96, 6: 0.02, 7: 0.01, EOS: 0.01}
    texts = [()]
    for _ in range(4):
        texts += [(*text, word) for text in texts for word in (5, 6, 7)]
    model = table_model(dict.fromkeys(texts, words), vocabulary=8)
    ((plain,),) = search(model, None, 1, DecodeConfig(max_length=3, beam=1))
    assert plain.tokens == (5, 5, 5)
    ((found,),) = search(model, None, 1, DecodeConfig(max_length=3, min_length=3, presence_penalty=50.0, **config))
    assert sorted(found.tokens) == [5, 6, 7]
    chosen = [torch.tensor(words[token]).log().item() for token in found.tokens]
    assert found.log_probabilities == pytest.approx(chosen, rel=1e-4), "log-probabilities are those of the model"
