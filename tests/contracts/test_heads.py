"""Laws that every classifier and tagger of the catalog must keep."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.catalog import CLASSIFIERS, POOLINGS, TAGGERS
from weft.models import Classifier, Spelling, TaggerSizes
from weft.nn import Packing
from weft.text import PAD

VOCABULARY = 17
SIZES = {
    "rnn": {"embedding": 6, "hidden": 8},
    "transformer": {"width": 8, "heads": 2, "layers": 2, "feedforward": 12},
}


NEURAL = list(SIZES)
"""The kinds that are networks; others count, or are trained in C."""


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def classifier(kind, pooling="attention"):
    return Classifier(CLASSIFIERS[kind](pooling=pooling, dropout=0.0, **SIZES[kind]), VOCABULARY, 3)


def tagger(kind, characters=5, **options):
    settings = TAGGERS[kind](characters=characters, dropout=0.0, **SIZES[kind], **options)
    return settings.build_tagger(TaggerSizes(VOCABULARY, VOCABULARY, 4, torch.zeros(VOCABULARY, dtype=torch.long)))


@pytest.mark.covers("T4", "M2")
@pytest.mark.parametrize("kind", NEURAL)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_no_class(kind, pooling):
    model = classifier(kind, pooling).eval()
    tokens = torch.randint(5, VOCABULARY, (2, 7))
    tokens[1, 4:] = PAD
    together = model(tokens, torch.tensor([7, 4]))
    assert_close(together[1:], model(tokens[1:, :4], torch.tensor([4])), atol=1e-5, rtol=1e-4)


def test_the_last_states_of_a_classifier_are_those_of_both_directions():
    model = classifier("rnn", "last").eval()
    tokens, lengths = torch.randint(5, VOCABULARY, (3, 7)), torch.tensor([7, 4, 1])
    ahead, back = model.encoder(tokens, lengths).final[-1]
    pooled = model.pool(tokens, lengths)
    assert_close(pooled, torch.cat((ahead.h, back.h), dim=-1))
    assert_close(model(tokens, lengths), model.scores(pooled))
    for place, half in ((0, slice(8, 16)), (3, slice(0, 8))):  # of four words the first, then the last
        changed = tokens.clone()
        changed[1, place] = (tokens[1, place] - 4) % 12 + 5
        assert not torch.allclose(model.pool(changed, lengths)[1, half], pooled[1, half], atol=1e-2)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_packed_classifier_equals_a_padded_one(pooling):
    model = classifier("transformer", pooling).eval()
    assert model.packs
    tokens, packing = torch.randint(5, VOCABULARY, (3, 5)), Packing.of(torch.tensor([2, 5, 1]))
    padded = model(packing.pad(packing.unpad(tokens)), packing.lengths)
    assert_close(model(packing.unpad(tokens), packing), padded, atol=1e-5, rtol=1e-4)


@pytest.mark.covers("T4")
@pytest.mark.parametrize("kind", NEURAL)
@pytest.mark.parametrize("characters", [0, 5, {"kind": "rnn", "hidden": 3}, {"kind": "cnn", "hidden": 5}])
def test_padding_changes_no_tag(kind, characters):
    model = tagger(kind, characters).eval()
    words, letters = torch.randint(5, VOCABULARY, (2, 6)), torch.randint(5, VOCABULARY, (9, 4))
    sizes, where = torch.randint(1, 5, (9,)), torch.randint(0, 9, (2, 6))
    together = model(words, torch.tensor([6, 3]), Spelling(letters, sizes, where))
    alone = model(words[1:, :3], torch.tensor([3]), Spelling(letters, sizes, where[1:, :3]))
    assert_close(together[1:, :3], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", NEURAL)
def test_spelling_tells_words_apart_that_the_vocabulary_does_not_know(kind):
    model = tagger(kind).eval()
    unknown = torch.ones(1, 2, dtype=torch.long)
    letters = torch.tensor([[5, 6, 7], [8, 9, 10]])
    logits = model(unknown, torch.tensor([2]), Spelling(letters, torch.tensor([3, 3]), torch.tensor([[0, 1]])))
    same = model(unknown, torch.tensor([2]), Spelling(letters, torch.tensor([3, 3]), torch.tensor([[0, 0]])))
    assert not torch.allclose(logits[0, 1], same[0, 1])


@pytest.mark.parametrize("kind", NEURAL)
def test_every_parameter_of_a_classifier_learns(kind):
    model = classifier(kind).eval()
    model(torch.randint(5, VOCABULARY, (4, 6)), torch.tensor([6, 5, 4, 6])).logsumexp(-1).sum().backward()
    assert silent(model) == []


@pytest.mark.parametrize("kind", NEURAL)
@pytest.mark.parametrize("characters", [5, {"kind": "cnn", "hidden": 5}])
@pytest.mark.parametrize("crf", [True, False])
def test_every_parameter_of_a_tagger_learns(kind, characters, crf):
    model = tagger(kind, characters, crf=crf).eval()
    words, letters = torch.randint(5, VOCABULARY, (2, 6)), torch.randint(5, VOCABULARY, (9, 4))
    spelling = Spelling(letters, torch.randint(1, 5, (9,)), torch.randint(0, 9, (2, 6)))
    tags = torch.randint(4, (2, 6))
    model.distribution(words, torch.tensor([6, 3]), spelling).loss(tags, partial=False).backward()
    assert silent(model) == []
    assert not model.packs


def silent(model):
    return [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
